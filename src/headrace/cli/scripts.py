"""KSQL scripts on the command line: how they are named, read and looked through, and how their errors are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import faults, output
from headrace.errors import HeadraceError, StatementError
from headrace.lang.ksql.script import Checked, check_script, read_script

Script = Annotated[Path, typer.Argument(metavar="FILE.ksql", help="The script.", exists=True, dir_okay=False)]


def checked(file: Path) -> Checked:
    """The script, looked through."""
    return check_script(read_script(file), str(file))


def refuse(found: Checked, *, as_json: bool) -> None:
    """If the script has errors: print them all, and end the program."""
    if not found.errors:
        return
    for error in found.errors:
        faults.show(error, as_json=as_json)
    if not as_json:
        output.note(summary(found))
    raise typer.Exit(faults.FAILED)


def summary(found: Checked) -> str:
    """`5 statements, 2 errors; 1 statement was not judged, since it needs what was refused`."""
    text = f"{_counted(found.statements, 'statement')}, {_counted(len(found.errors), 'error')}"
    if not found.following:
        return text
    was, needs = ("was", "it needs") if found.following == 1 else ("were", "they need")
    return f"{text}; {_counted(found.following, 'statement')} {was} not judged, since {needs} what was refused"


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def error_document(error: HeadraceError) -> dict[str, Any]:
    """An error as JSON; one of a statement with its place in numbers and the underlined line."""
    document: dict[str, Any] = error.as_dict()
    if isinstance(error, StatementError) and error.span is not None:
        document |= {"line": error.span.line, "column": error.span.column, "excerpt": error.excerpt}
    return document
