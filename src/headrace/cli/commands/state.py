"""`headrace state`: show and remove the checkpoints of queries."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.context import CommandContext, require_data_folder
from headrace.cli.io import output
from headrace.errors import Unsupported
from headrace.settings import Size

app = typer.Typer(no_args_is_help=True)


@app.callback()
def state() -> None:
    """Show and remove the state of queries."""


Query = Annotated[str, typer.Argument(help="Query id; PROGRAM/ID if several programs have it.")]


@app.command("list")
def list_(ctx: typer.Context, as_json: output.Json = False) -> None:
    """List the checkpoints of queries, with their size.

    A query that is no longer in its script is listed until it is removed.

    Example: headrace state list
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    from headrace.control.admin.checkpoints import describe_checkpoints

    rows = [dataclasses.asdict(description) for description in describe_checkpoints(_folder(call))]
    if not call.json:
        rows = [{**row, "used_at": output.time_text(row["used_at"]), "bytes": Size(row["bytes"])} for row in rows]
    columns = ("query", "execution_mode", "batches", "used_at", "files", "bytes", "problem")
    output.print_rows(rows, as_json=call.json, columns=columns, empty="there are no checkpoints")


@app.command()
def remove(
    ctx: typer.Context,
    query: Query,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove the checkpoint of a query, after confirmation.

    The results of the query stay. When the query runs again, it starts from scratch: it reads its topics from the
    beginning and writes its results once more. The command is refused while the query's program runs.

    Example: headrace state remove CTAS_VISITS_3 --yes
    """
    call: CommandContext = ctx.obj
    from headrace.control.admin.checkpoints import remove_checkpoint
    from headrace.engine.record import state_reader

    checkpoint = state_reader.find_checkpoint(_folder(call), query)
    name = f"{checkpoint.folder.parent.name}/{checkpoint.folder.name}"
    if not yes:
        typer.confirm(f"Remove the checkpoint of query {name}?", abort=True, err=True)
    with call.log() as log:
        remove_checkpoint(log, checkpoint)
    output.note(f"removed the checkpoint of query {name}")


@app.command()
def recover(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="PROGRAM/ID, as the error names it; of a server: server/ID.")],
    reprocess: Annotated[
        bool, typer.Option("--reprocess", help="Empty the output topic, and start over from the beginning.")
    ] = False,
    resume_from_output: Annotated[
        bool, typer.Option("--resume-from-output", help="Continue after the output. For queries without state.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Decide how a query continues whose checkpoint is gone or outdated.

    Such a query is refused (checkpoint-missing, checkpoint-outdated): it would write its results again. The decision
    takes effect when the query starts: RESUME it, or run its program again.

    Example: headrace state recover server/CSAS_ORDERS_3 --resume-from-output
    """
    call: CommandContext = ctx.obj
    from headrace.control.queries.recoverable import check_recoverable
    from headrace.engine import recovery

    if reprocess == resume_from_output:
        raise typer.BadParameter("choose one of them", param_hint="--reprocess, --resume-from-output")
    program, _, name = query.rpartition("/")
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", program) or not re.fullmatch(r"(?!\.)[A-Za-z0-9=._-]+", name):
        raise typer.BadParameter("name the query as PROGRAM/ID", param_hint="QUERY")
    folder = _folder(call)
    with call.log() as log:
        check_recoverable(log, call.settings().storage.data, query)
    if reprocess and not yes:
        typer.confirm(f"Empty the output topic of query {query}, and start over?", abort=True, err=True)
    decision = recovery.REPROCESS if reprocess else recovery.FROM_OUTPUT
    recovery.decide(folder / program / name, recovery.Decision(decision))
    output.note(f"query {query} will {_EFFECTS[decision]} when it starts")


_EFFECTS = {"reprocess": "empty its output and start over", "resume-from-output": "continue after its output"}


def _folder(call: CommandContext) -> Path:
    """The folder of the checkpoints, which is in the data folder for every kind of log."""
    data = call.settings().storage.data
    require_data_folder(data)
    return data / "checkpoints"


_RECORD_MODE_FIX = 'to see its state, run it with the setting query.execution_mode = "record", under another --name'


@app.command()
def show(
    ctx: typer.Context,
    query: Query,
    key: Annotated[str | None, typer.Argument(help="Show only entries whose key is or contains this.")] = None,
    as_json: output.Json = False,
) -> None:
    """Show the state of a query, or of one of its keys.

    The state is that of the last completed batch. It is read from the query's checkpoint, whether the query runs or
    not. A key is text or JSON: 7, ["a", 7].

    Example: headrace state show CTAS_VISITS_3

    Example: headrace state show CTAS_VISITS_3 /home
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    from headrace.engine.record import state_reader
    from headrace.engine.spark.session import spark_session

    settings = call.settings()
    checkpoint = state_reader.find_checkpoint(_folder(call), query)
    if (mode := checkpoint.execution_mode) != "record":
        raise Unsupported(
            f'query "{query}" runs in {mode} mode: Spark stores its state in a format of its own', fix=_RECORD_MODE_FIX
        )
    spark = spark_session(settings)
    if key is None:
        rows = [dataclasses.asdict(summary) for summary in state_reader.store_summaries(spark, checkpoint)]
        _stores(call, query, rows)
    else:
        entries = state_reader.find_entries(spark, checkpoint, key)
        _entries(
            call, key, [{"key_group": e.key_group, "store": e.store, "key": e.key, "value": e.value} for e in entries]
        )


def _stores(call: CommandContext, query: str, rows: list[dict[str, Any]]) -> None:
    if not call.json:
        rows = [{**row, "bytes": Size(row["bytes"])} for row in rows]
    columns = ("store", "entries", "buckets", "bytes", "key_groups")
    output.print_rows(rows, as_json=call.json, columns=columns, empty=f"query {query} has no state")


def _entries(call: CommandContext, key: str, rows: list[dict[str, Any]]) -> None:
    show = json_value if call.json else repr
    rows = [{**row, "key": show(row["key"]), "value": show(row["value"])} for row in rows]
    columns = ("key_group", "store", "key", "value")
    output.print_rows(rows, as_json=call.json, columns=columns, empty=f'no state for key "{key}"')


def json_value(value: Any) -> Any:
    """A state value as JSON; types that JSON does not have become text."""
    if isinstance(value, tuple | list):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else repr(name): json_value(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Decimal) or (isinstance(value, int) and not -(1 << 63) <= value < 1 << 64):
        return str(value)
    return value
