"""`headrace test`: run a KSQL script in memory and compare its output with the expected output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.context import CommandContext
from headrace.cli.io import error_output, output
from headrace.cli.params import script
from headrace.errors import BadTestCases
from headrace.testing import CaseReport, run_cases, run_script

app = typer.Typer()
_Cases = Annotated[
    Path | None,
    typer.Argument(metavar="CASES.json", help="Test cases: inputs and expected outputs.", exists=True, dir_okay=False),
]


@app.command()
def compare(ctx: typer.Context, file: script.Script, cases: _Cases = None, as_json: output.Json = False) -> None:
    """Test a KSQL script in memory.

    Each case of the JSON file runs separately: its inputs are processed, and its outputs are compared in order. Without
    such a file, the ASSERT statements of the script define the expected output. The exit code is 1 if something
    differs.

    Example: headrace test pageviews.ksql cases.json

    Example: headrace test asserts.ksql
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    statements = script.load_script(file)
    script.exit_on_errors(script.analyze_script(statements), as_json=call.json)
    report = _report(statements, cases)
    if call.json:
        output.print_json(_document(report))
    else:
        _show(report)
    raise typer.Exit(error_output.EXIT_FAILED if report.failed else 0)


def _report(statements: script.ScriptText, cases: Path | None) -> CaseReport:
    text, name, language = statements.text, statements.name, statements.language
    if cases is not None:
        return run_cases(text, cases.read_text(encoding="utf-8"), name, language=language)
    report = run_script(text, name, language=language)
    if not report.cases and not report.answers:
        raise BadTestCases(f"{name} has no ASSERT", fix="add ASSERT statements, or name a file of test cases")
    return report


def _show(report: CaseReport) -> None:
    for listing in report.answered():
        typer.echo(listing)
    printed = ""
    for difference in report.differences:
        if difference.case != printed:
            output.stderr_console().print(f"FAILED {difference.case}", markup=False, style="bold", soft_wrap=True)
            printed = difference.case
        error_output.print_error(difference.error, as_json=False)
    typer.echo(report.closing)


def _document(report: CaseReport) -> dict[str, object]:
    differences = [{"case": d.case, **script.error_document(d.error)} for d in report.differences]
    answers = [listing.entity() for listing in report.answers]
    counts = {"passed": report.cases - report.failed, "failed": report.failed}
    return {**counts, "differences": differences, "answers": answers}
