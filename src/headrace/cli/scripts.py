"""Scripts on the command line, KSQL or Python: how they are named, read and looked through, and how their errors are
shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import faults, output
from headrace.errors import HeadraceError, StatementError
from headrace.lang.ksql.files import read_script
from headrace.lang.ksql.script import Checked, check_script

Script = Annotated[Path, typer.Argument(metavar="FILE.ksql", help="The script.", exists=True, dir_okay=False)]


@dataclass(frozen=True)
class Statements:
    """What a file says in KSQL. If it is Python, `setup` is what every process must do that runs it."""

    name: str
    """As errors say it."""
    text: str
    program: str
    """As it is called when it runs."""
    setup: Callable[[], None] | None = None


def read(file: Path) -> Statements:
    """The statements of a script, or of the app that a Python file makes."""
    if file.suffix != ".py":
        return Statements(str(file), read_script(file), file.stem)
    from headrace.lang.python.loading import load

    code, app = load(file)
    return Statements(f"{file}, in its KSQL", app.text, app.name or file.stem, code)


def checked(script: Path | Statements) -> Checked:
    """The script, looked through."""
    statements = read(script) if isinstance(script, Path) else script
    return check_script(statements.text, statements.name)


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
