"""`headrace consume`: print the rows of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io.row_printer import RowPrinter
from headrace.cli.io.topic_reader import DirectReader, print_group
from headrace.cli.params import offset
from headrace.cli.params.values import Headers
from headrace.contracts import Filter, Log, OffsetReset, Subscription
from headrace.errors import BadOption
from headrace.schema import Schema

if TYPE_CHECKING:
    from headrace.plan.catalog import Catalog

app = typer.Typer()


@app.command()
def consume(
    ctx: typer.Context,
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="One or more topics.")] = None,
    pattern: Annotated[
        str | None, typer.Option(help="Also read topics whose name matches this regular expression.")
    ] = None,
    start: offset.From = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Read only this partition.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Read as a member of this consumer group, and commit offsets.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep waiting for new rows; stop with Ctrl-C.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--max", min=1, help="Stop after this many rows.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Print only rows for which this KSQL condition is true.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEMA",
            help="For --where on a raw topic: fields of its JSON values. Default: its stream's columns.",
        ),
    ] = None,
    header: Headers = None,
    format: Annotated[
        Literal["json", "csv", "csv-exact", "raw", "table"] | None,
        typer.Option(
            help="Output format. Default: json if the topic has a schema, else raw (the value).", show_default=False
        ),
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="Print the column names first (CSV).")] = False,
    lost: Annotated[
        OffsetReset, typer.Option(help="What to do if retention has removed the next row.")
    ] = OffsetReset.ERROR,
) -> None:
    """Print the rows of topics, from the earliest to the latest.

    Without a group, rows are read directly and no consumer group is affected. With a group, reading resumes at the
    group's committed offsets, partitions are shared with its other members, and offsets are committed after the rows
    are printed.

    A condition names the columns of the topic's schema. Values of a raw topic have the columns of the stream or table
    declared over the topic, or those of --columns; without them, KEY and VALUE are text. Every topic has ROWTIME,
    ROWPARTITION, ROWOFFSET and HEADERS.

    Example: headrace consume orders --from -10m --where "price > 100"

    Example: headrace consume raw --columns "price double" --where "price > 100"

    Example: headrace consume orders --group billing --follow
    """
    call: CommandContext = ctx.obj
    if not topics and pattern is None:
        raise typer.BadParameter("name a topic, or give a --pattern")
    if columns is not None and where is None:
        raise BadOption("--columns needs --where", fix="add a condition, or remove --columns")
    printer = RowPrinter(format or ("json" if call.json else None), names=names)
    with call.log(long=follow) as log:
        filter = _combined(_condition(log, where, columns, topics or ()), _headers(header))
        subscription = Subscription(tuple(topics or ()), pattern, filter)
        if group is None:
            first = start or offset.EARLIEST
            DirectReader(log, subscription, printer, first, partition, lost).run(limit=limit, follow=follow)
        else:
            _check_group(partition, start)
            first = start.end if start else "earliest"
            consumer = log.consumer(group, subscription, start=first, lost=lost, client="headrace")
            try:
                print_group(log, consumer, printer, limit=limit, follow=follow)
            finally:
                consumer.close()


def _check_group(partition: int | None, start: offset.OffsetSpec | None) -> None:
    if partition is not None:
        raise BadOption(
            "--partition cannot be used with --group: the group assigns partitions", fix="remove --partition or --group"
        )
    if start is not None and start.end is None:
        raise BadOption(
            "--from cannot be used with --group: the group resumes at its committed offsets",
            fix="reset the group first: headrace group reset NAME --to OFFSET",
        )


def _condition(log: Log, where: str | None, columns: str | None, topics: Sequence[str]) -> Filter | None:
    if where is None:
        return None
    from headrace.lang.topic_conditions import TopicCondition

    def catalog() -> Catalog:
        from headrace.control.statements.replay import read_catalog  # takes a second, and only raw topics need it

        return read_catalog(log)

    schema = None if columns is None else Schema.parse(columns)
    condition = TopicCondition(where, log.topic, columns=schema, catalog=catalog)
    for topic in topics:
        condition.check(topic)
    return condition


def _headers(header: list[Any] | None) -> Filter | None:
    from headrace.log.header_filter import header_filter

    return header_filter(dict(header)) if header else None


def _combined(first: Filter | None, second: Filter | None) -> Filter | None:
    import pyarrow.compute as pc

    if first is None or second is None:
        return first or second
    return lambda batch: pc.and_(first(batch), second(batch))
