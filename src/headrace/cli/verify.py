"""`headrace verify`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import output, scripts
from headrace.cli.call import Call, check_folder
from headrace.cli.state import plain
from headrace.errors import NotVerifiable, UnknownQuery

if TYPE_CHECKING:
    from headrace.contracts import Log
    from headrace.control.subjects import Subject
    from headrace.control.verifying import Verdict
    from headrace.settings import Settings

_FIX = "name a query of a running or stopped server, or give the script with --file"
_WORDS = {"missing": "missing", "more": "too many", "other": "with another value"}


def verify(
    ctx: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(
            help="The query's id, or the name of the stream or table that it fills; all if left out.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The script or app it is of, if `headrace run` ran it.", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The program's name, if that is not the file's.", show_default=False)
    ] = None,
    as_json: output.Json = False,
) -> None:
    """Compute a query's results again, as one batch on Spark, and compare them with what it has written.

    Of a stream every record is compared; of a table the last row of each key, and its view with its topic. The query
    may run meanwhile: it is compared up to a batch that is done. Exit code 1 if something differs; at most 20
    differences are shown.

    Example: headrace verify CTAS_SUMS_1

    Example: headrace verify sums --file orders.ksql
    """
    call: Call = ctx.obj
    call.json |= as_json
    settings = call.settings()
    check_folder(settings.data)
    with call.log() as log:
        subjects = _subjects(log, settings, file, name)
        verdicts = list(_verdicts(log, settings, _chosen(subjects, query), alone=query is not None))
    if call.json:
        told = [plain({**dataclasses.asdict(one), "equal": one.equal}) for one in verdicts]
        output.print_json(told if query is None else told[0])
    else:
        for one in verdicts:
            _print(one)
    if not all(one.equal for one in verdicts):
        raise typer.Exit(1)


def _subjects(log: Log, settings: Settings, file: Path | None, name: str | None) -> list[Subject]:
    from headrace.control import subjects

    if file is None:
        return subjects.of_server(log, settings.data)
    from headrace.engine.batch.shipping import no_setup

    given = scripts.read(file)
    found = scripts.checked(given)
    program = name or re.sub(r"[^A-Za-z0-9._-]", "-", given.program)
    actions = [one.action for one in found.planned]
    return subjects.of_script(actions, found.catalog, settings.data, program, given.setup or no_setup)


def _chosen(subjects: list[Subject], query: str | None) -> list[Subject]:
    from headrace.control.subjects import named

    if query is not None:
        return [named(subjects, query, fix=_FIX)]
    if not subjects:
        raise UnknownQuery("there is no query", fix=_FIX)
    return subjects


def _verdicts(log: Log, settings: Settings, subjects: list[Subject], *, alone: bool) -> Iterator[Verdict]:
    """Of several, those that cannot be verified are named."""
    from headrace.control.verifying import verify

    for subject in subjects:
        with output.errors().status(f"computing {subject.query.id} again"):
            try:
                yield verify(log, settings, subject)
            except NotVerifiable as error:
                if alone:
                    raise
                output.note(f"{error.code}: {error.what}")


# -- what is said ---------------------------------------------------------------------------------------------------


def _print(verdict: Verdict) -> None:
    typer.echo(_summary(verdict))
    if verdict.differences:
        rows = [_row(dataclasses.asdict(one)) for one in verdict.differences]
        output.results().print(output.table(rows, ["where", "key", "expected", "found"]))
    for note in verdict.notes:
        output.note(f"note: {note}")


def _summary(verdict: Verdict) -> str:
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
    return None if columns is None else ", ".join(f"{name} {plain(value)}" for name, value in columns.items())
