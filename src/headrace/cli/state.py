"""`headrace state`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.call import Call
from headrace.errors import Unsupported
from headrace.settings import Size

app = typer.Typer(no_args_is_help=True)


@app.callback()
def state() -> None:
    """Look at what a query remembers."""


_ANEW = 'to look inside, run it with the setting way = "record", under another --name'


@app.command()
def show(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="The query's id; PROGRAM/ID where several programs have it.")],
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
    checkpoint = inspection.find(call.folder() / "checkpoints", query)
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
