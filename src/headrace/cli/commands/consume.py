"""`headrace consume`: print the rows of topics."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io.row_printer import RowPrinter
from headrace.cli.io.topic_reader import DirectReader, print_group
from headrace.cli.params import offset
from headrace.cli.params.values import Headers
from headrace.contracts import Filter, OffsetReset, Subscription
from headrace.errors import BadOption

app = typer.Typer()


@app.command()
def consume(
    ctx: typer.Context,
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Names of topics.")] = None,
    pattern: Annotated[str | None, typer.Option(help="Also topics whose name matches this expression.")] = None,
    start: offset.From = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Share the rows with this group, and commit what is printed.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = False,
    limit: Annotated[int | None, typer.Option("--max", min=1, help="Stop after so many rows.")] = None,
    where: Annotated[str | None, typer.Option(help="Only rows for which this condition is true.")] = None,
    header: Headers = None,
    format: Annotated[
        Literal["json", "csv", "csv-exact", "raw", "table"] | None,
        typer.Option(help="How to print; by default json for a topic with a schema, else raw (the value)."),
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="Begin CSV with the names of the columns.")] = False,
    lost: Annotated[
        OffsetReset, typer.Option(help="When the next row was removed: fail, or go on there.")
    ] = OffsetReset.ERROR,
) -> None:
    """Print the rows of topics, from the earliest row to the end.

    Without a group, rows are read directly and no consumer group is affected. With a group, reading resumes at the
    group's committed offsets, partitions are shared with its other members, and offsets are committed after the rows
    are printed.

    Example: headrace consume orders --from -10m --where "price > 100 and item = 'tea'"

    Example: headrace consume orders --group billing --follow
    """
    call: CommandContext = ctx.obj
    if not topics and pattern is None:
        raise typer.BadParameter("name a topic, or give a --pattern")
    wanted = Subscription(tuple(topics or ()), pattern, _filter(where, header))
    printer = RowPrinter(format or ("json" if call.json else None), names=names)
    with call.log(long=follow) as log:
        if group is None:
            first = start or offset.EARLIEST
            DirectReader(log, wanted, printer, first, partition, lost).run(limit=limit, follow=follow)
        else:
            _check_group(partition, start)
            first = start.end if start else "earliest"
            consumer = log.consumer(group, wanted, start=first, lost=lost, client="headrace")
            try:
                print_group(log, consumer, printer, limit=limit, follow=follow)
            finally:
                consumer.close()


def _check_group(partition: int | None, start: offset.OffsetSpec | None) -> None:
    if partition is not None:
        raise BadOption("a group gives out the partitions by itself", fix="leave --partition out, or --group")
    if start is not None and start.end is None:
        raise BadOption("a group begins where it is", fix="move it first: headrace group reset NAME --to PLACE")


def _filter(where: str | None, header: list[Any] | None) -> Filter | None:
    import pyarrow.compute as pc

    from headrace.log.filters import filter_expression, header_filter

    filters = [filter_expression(where)] if where is not None else []
    filters += [header_filter(dict(header))] if header else []
    if len(filters) < 2:
        return filters[0] if filters else None
    return lambda rows: pc.and_(filters[0](rows), filters[1](rows))
