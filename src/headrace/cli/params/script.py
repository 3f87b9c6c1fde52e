"""Scripts on the command line, KSQL or Python: loads and checks them, and prints their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.io import error_output, output
from headrace.errors import HeadraceError, StatementError
from headrace.lang.contract import CheckedScript
from headrace.lang.registry import KSQL, dialect_of, dialect_of_file
from headrace.lang.script_files import read_script

Script = Annotated[Path, typer.Argument(metavar="FILE.ksql", help="KSQL script.", exists=True, dir_okay=False)]


@dataclass(frozen=True)
class ScriptText:
    """The statements of a file. For a Python file, `setup` must be called in every process that runs it."""

    name: str
    """The name in error messages."""
    text: str
    program: str
    """The name of the program when it runs."""
    language: str = KSQL
    setup: Callable[[], None] | None = None


def load_script(file: Path) -> ScriptText:
    """The statements of a script, or of the app that a Python file defines."""
    if file.suffix != ".py":
        return ScriptText(str(file), read_script(file), file.stem, dialect_of_file(file).name)
    from headrace.lang.python.app_code import load

    code, app = load(file)
    return ScriptText(f"{file}, in its KSQL", app.text, app.name or file.stem, setup=code)


def analyze_script(script: Path | ScriptText) -> CheckedScript:
    """The script, checked."""
    statements = load_script(script) if isinstance(script, Path) else script
    return dialect_of(statements.language).check(statements.text, statements.name)


def exit_on_errors(checked: CheckedScript, *, as_json: bool) -> None:
    """If the script has errors, print them all and exit."""
    if not checked.errors:
        return
    for error in checked.errors:
        error_output.print_error(error, as_json=as_json)
    if not as_json:
        output.note(check_summary(checked))
    raise typer.Exit(error_output.EXIT_FAILED)


def check_summary(checked: CheckedScript) -> str:
    """`5 statements, 2 errors; 1 statement was not checked: it needs a rejected statement`."""
    text = f"{_counted(checked.statements, 'statement')}, {_counted(len(checked.errors), 'error')}"
    if not checked.following:
        return text
    was, needs = ("was", "it needs") if checked.following == 1 else ("were", "they need")
    return f"{text}; {_counted(checked.following, 'statement')} {was} not checked: {needs} a rejected statement"


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def error_document(error: HeadraceError) -> dict[str, Any]:
    """An error as JSON; an error in a statement with its location in numbers and the underlined line."""
    document: dict[str, Any] = error.as_dict()
    if isinstance(error, StatementError) and error.span is not None:
        document |= {"line": error.span.line, "column": error.span.column, "excerpt": error.excerpt}
    return document
