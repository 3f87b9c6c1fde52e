"""`headrace verify`: recompute a query's results and compare them with its output."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.commands.state import json_value
from headrace.cli.context import CommandContext, require_data_folder
from headrace.cli.io import output
from headrace.cli.params import script
from headrace.errors import NotVerifiable, UnknownQuery

if TYPE_CHECKING:
    from headrace.contracts import Log
    from headrace.control.verify.query import VerifyResult
    from headrace.control.verify.targets import VerifyTarget
    from headrace.settings import Settings

_FIX = "name a query of a running or stopped server, or give the script with --file"
_WORDS = {"missing": "missing", "more": "too many", "other": "with another value"}


def verify(
    ctx: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(
            help="Query id, or name of the stream or table it writes. Default: all queries.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Script or app of the query, if it ran with `headrace run`.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Program name. Default: the file's name.", show_default=False)
    ] = None,
    as_json: output.Json = False,
) -> None:
    """Recompute a query's results and compare them.

    Spark recomputes them in one batch. For a stream, every record is compared. For a table, the last row of each key is
    compared, and its view with its topic. The query may run meanwhile: it is compared up to a completed batch. The exit
    code is 1 if something differs; at most 20 differences are shown.

    Example: headrace verify CTAS_SUMS_1

    Example: headrace verify sums --file orders.ksql
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    settings = call.settings()
    require_data_folder(settings.storage.data)
    with call.log() as log:
        candidates = _targets(log, settings, file, name)
        results = list(_verify(log, settings, _selected(candidates, query), required=query is not None))
    if call.json:
        parts = [json_value({**dataclasses.asdict(one), "equal": one.equal}) for one in results]
        output.print_json(parts if query is None else parts[0])
    else:
        for one in results:
            _print(one)
    if not all(one.equal for one in results):
        raise typer.Exit(1)


def _targets(log: Log, settings: Settings, file: Path | None, name: str | None) -> list[VerifyTarget]:
    from headrace.control.verify import targets

    if file is None:
        return targets.server_targets(log, settings.storage.data)
    from headrace.plan.serialization import no_setup

    loaded = script.load_script(file)
    checked = script.analyze_script(loaded)
    program = name or re.sub(r"[^A-Za-z0-9._-]", "-", loaded.program)
    actions = [one.action for one in checked.planned]
    return targets.script_targets(actions, checked.catalog, settings.storage.data, program, loaded.setup or no_setup)


def _selected(candidates: list[VerifyTarget], query: str | None) -> list[VerifyTarget]:
    from headrace.control.verify.targets import find_target

    if query is not None:
        return [find_target(candidates, query, fix=_FIX)]
    if not candidates:
        raise UnknownQuery("there are no queries", fix=_FIX)
    return candidates


def _verify(log: Log, settings: Settings, candidates: list[VerifyTarget], *, required: bool) -> Iterator[VerifyResult]:
    """Verify the targets one by one. With several targets, those that cannot be verified are only reported."""
    from headrace.control.verify.query import verify

    for target in candidates:
        with output.stderr_console().status(f"recomputing {target.query.id}"):
            try:
                yield verify(log, settings, target)
            except NotVerifiable as error:
                if required:
                    raise
                output.note(f"{error.code}: {error.what}")


# -- output ---------------------------------------------------------------------------------------------------------


def _print(result: VerifyResult) -> None:
    typer.echo(_summary(result))
    if result.differences:
        rows = [_row(dataclasses.asdict(one)) for one in result.differences]
        output.print_table(output.stdout_console(), rows, ["where", "key", "expected", "found"])
    for note in result.notes:
        output.note(f"note: {note}")


def _summary(result: VerifyResult) -> str:
    unit = "keys" if result.kind == "table" else "records"
    scope = f"{result.query}, up to batch {result.batch}" if result.batch >= 0 else f"{result.query}, before any batch"
    parts = [f"{count:,} {_WORDS[kind]}" for kind, count in result.counts.items()]
    topic = f"{result.rows:,} {unit} of {result.sink}: {', '.join(parts) or 'equal'}"
    if result.view_rows is None:
        return f"{scope}: {topic}"
    view = f"{result.view_differing:,} differ" if result.view_differing else "equal"
    return f"{scope}: {topic}; {result.view_rows:,} rows of its view: {view}"


def _row(one: dict[str, Any]) -> dict[str, Any]:
    sides = {side: _text(one[side]) for side in ("key", "expected", "found")}
    times = f" ({one['times']} times)" if one["times"] > 1 else ""
    return {"where": f"{one['where']}{times}", **sides}


def _text(columns: dict[str, Any] | None) -> str | None:
    return None if columns is None else ", ".join(f"{name} {json_value(value)}" for name, value in columns.items())
