"""`headrace state`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.call import Call, check_folder
from headrace.errors import Unsupported
from headrace.settings import Size

app = typer.Typer(no_args_is_help=True)


@app.callback()
def state() -> None:
    """Look at what queries remember, and remove it."""


Query = Annotated[str, typer.Argument(help="The query's id; PROGRAM/ID where several programs have it.")]


@app.command("list")
def list_(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the queries that have left a checkpoint, and how much each takes on the disk.

    A query that its script no longer names is among them until it is removed.

    Example: headrace state list
    """
    call: Call = ctx.obj
    call.json |= as_json
    from headrace.control.remains import remains

    rows = [dataclasses.asdict(found) for found in remains(_folder(call))]
    if not call.json:
        rows = [{**row, "used_at": output.time_text(row["used_at"]), "bytes": Size(row["bytes"])} for row in rows]
    columns = ("query", "way", "batches", "used_at", "files", "bytes", "problem")
    output.listing(rows, as_json=call.json, columns=columns, empty="no query has left anything")


@app.command()
def remove(
    ctx: typer.Context, query: Query, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> None:
    """Remove what a query remembers, for good. Asks first. Its results stay.

    Run again, the query begins anew: it reads its topics from their beginning, and writes its results once more. This
    is refused while its program runs.

    Example: headrace state remove CTAS_VISITS_3 --yes
    """
    call: Call = ctx.obj
    from headrace.control.remains import remove
    from headrace.engine.record import inspection

    checkpoint = inspection.find(_folder(call), query)
    name = f"{checkpoint.folder.parent.name}/{checkpoint.folder.name}"
    if not yes:
        typer.confirm(f"Remove all that query {name} remembers?", abort=True, err=True)
    with call.log() as log:
        remove(log, checkpoint)
    output.note(f"query {name} is forgotten")


def _folder(call: Call) -> Path:
    """Of the checkpoints, which lie in the data folder whatever the log is."""
    data = call.settings().data
    check_folder(data)
    return data / "checkpoints"


_ANEW = 'to look inside, run it with the setting way = "record", under another --name'


@app.command()
def show(
    ctx: typer.Context,
    query: Query,
    key: Annotated[str | None, typer.Argument(help="Only entries with this key, or with it as a part.")] = None,
    as_json: output.Json = False,
) -> None:
    """Show the stores of a query, or the entries of a key, as of its last whole batch.

    The state is read from the query's checkpoint; the query may run or not. A key is text, or JSON: 7, ["a", 7].

    Example: headrace state show CTAS_VISITS_3

    Example: headrace state show CTAS_VISITS_3 /home
    """
    call: Call = ctx.obj
    call.json |= as_json
    from headrace.engine.record import inspection
    from headrace.engine.session import spark_session

    settings = call.settings()
    checkpoint = inspection.find(_folder(call), query)
    if (way := checkpoint.way()) != "record":
        raise Unsupported(f'query "{query}" runs the {way} way: what it remembers is Spark\'s own', fix=_ANEW)
    spark = spark_session(settings)
    if key is None:
        rows = [dataclasses.asdict(holding) for holding in inspection.holdings(spark, checkpoint)]
        _stores(call, query, rows)
    else:
        found = inspection.entries(spark, checkpoint, key)
        _entries(call, key, [{"page": e.page, "store": e.store, "key": e.key, "value": e.value} for e in found])


def _stores(call: Call, query: str, rows: list[dict[str, Any]]) -> None:
    if not call.json:
        rows = [{**row, "bytes": Size(row["bytes"])} for row in rows]
    columns = ("store", "entries", "buckets", "bytes", "pages")
    output.listing(rows, as_json=call.json, columns=columns, empty=f"query {query} remembers nothing")


def _entries(call: Call, key: str, rows: list[dict[str, Any]]) -> None:
    show = plain if call.json else repr
    rows = [{**row, "key": show(row["key"]), "value": show(row["value"])} for row in rows]
    columns = ("page", "store", "key", "value")
    output.listing(rows, as_json=call.json, columns=columns, empty=f'nothing is remembered of "{key}"')


def plain(value: Any) -> Any:
    """A value of a state as JSON has it: what JSON does not know becomes text."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else repr(name): plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Decimal) or (isinstance(value, int) and not -(1 << 63) <= value < 1 << 64):
        return str(value)
    return value
