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
        subjects = _subjects(log, settings, file, name)
        verdicts = list(_verdicts(log, settings, _chosen(subjects, query), alone=query is not None))
    if call.json:
        told = [json_value({**dataclasses.asdict(one), "equal": one.equal}) for one in verdicts]
        output.print_json(told if query is None else told[0])
    else:
        for one in verdicts:
            _print(one)
    if not all(one.equal for one in verdicts):
        raise typer.Exit(1)


def _subjects(log: Log, settings: Settings, file: Path | None, name: str | None) -> list[VerifyTarget]:
    from headrace.control.verify import targets

    if file is None:
        return targets.server_targets(log, settings.storage.data)
    from headrace.plan.serialization import no_setup

    given = script.load_script(file)
    found = script.analyze_script(given)
    program = name or re.sub(r"[^A-Za-z0-9._-]", "-", given.program)
    actions = [one.action for one in found.planned]
    return targets.script_targets(actions, found.catalog, settings.storage.data, program, given.setup or no_setup)


def _chosen(subjects: list[VerifyTarget], query: str | None) -> list[VerifyTarget]:
    from headrace.control.verify.targets import find_target

    if query is not None:
        return [find_target(subjects, query, fix=_FIX)]
    if not subjects:
        raise UnknownQuery("there are no queries", fix=_FIX)
    return subjects


def _verdicts(log: Log, settings: Settings, subjects: list[VerifyTarget], *, alone: bool) -> Iterator[VerifyResult]:
    """Verify the targets one by one. With several targets, those that cannot be verified are only reported."""
    from headrace.control.verify.query import verify

    for subject in subjects:
        with output.stderr_console().status(f"recomputing {subject.query.id}"):
            try:
                yield verify(log, settings, subject)
            except NotVerifiable as error:
                if alone:
                    raise
                output.note(f"{error.code}: {error.what}")


# -- output ---------------------------------------------------------------------------------------------------------


def _print(verdict: VerifyResult) -> None:
    typer.echo(_summary(verdict))
    if verdict.differences:
        rows = [_row(dataclasses.asdict(one)) for one in verdict.differences]
        output.stdout_console().print(output.table(rows, ["where", "key", "expected", "found"]))
    for note in verdict.notes:
        output.note(f"note: {note}")


def _summary(verdict: VerifyResult) -> str:
    things = "keys" if verdict.kind == "table" else "records"
    upto = (
        f"{verdict.query}, up to batch {verdict.batch}" if verdict.batch >= 0 else f"{verdict.query}, before any batch"
    )
    told = [f"{count:,} {_WORDS[kind]}" for kind, count in verdict.counts.items()]
    topic = f"{verdict.rows:,} {things} of {verdict.sink}: {', '.join(told) or 'equal'}"
    if verdict.view_rows is None:
        return f"{upto}: {topic}"
    view = f"{verdict.view_differing:,} differ" if verdict.view_differing else "equal"
    return f"{upto}: {topic}; {verdict.view_rows:,} rows of its view: {view}"


def _row(one: dict[str, Any]) -> dict[str, Any]:
    sides = {side: _text(one[side]) for side in ("key", "expected", "found")}
    times = f" ({one['times']} times)" if one["times"] > 1 else ""
    return {"where": f"{one['where']}{times}", **sides}


def _text(columns: dict[str, Any] | None) -> str | None:
    return None if columns is None else ", ".join(f"{name} {json_value(value)}" for name, value in columns.items())
