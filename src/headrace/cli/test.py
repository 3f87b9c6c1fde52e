"""`headrace test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import faults, output, scripts
from headrace.cli.call import Call
from headrace.errors import BadCases
from headrace.testing import Report, run_cases, run_script

app = typer.Typer()
_Cases = Annotated[
    Path | None,
    typer.Argument(metavar="CASES.json", help="Inputs and expected outputs.", exists=True, dir_okay=False),
]


@app.command()
def compare(ctx: typer.Context, file: scripts.Script, cases: _Cases = None, as_json: output.Json = False) -> None:
    """Run a KSQL script in memory, and compare what comes out with what is expected.

    Every case of the JSON file is run on its own: its inputs are fed, its outputs compared in order. Without such a
    file the ASSERT statements of the script say what is expected. Exit code 1 if something differs.

    Example: headrace test pageviews.ksql cases.json

    Example: headrace test asserts.ksql
    """
    call: Call = ctx.obj
    call.json |= as_json
    scripts.refuse(scripts.checked(file), as_json=call.json)
    report = _report(file, cases)
    if call.json:
        output.print_json(_document(report))
    else:
        _show(report)
    raise typer.Exit(faults.FAILED if report.failed else 0)


def _report(file: Path, cases: Path | None) -> Report:
    sql = file.read_text(encoding="utf-8")
    if cases is not None:
        return run_cases(sql, cases.read_text(encoding="utf-8"), str(file))
    report = run_script(sql, str(file))
    if not report.cases and not report.answers:
        raise BadCases(f"{file} has no ASSERT", fix="add some, or name a file of cases behind it")
    return report


def _show(report: Report) -> None:
    for answer in report.answered():
        typer.echo(answer)
    told = ""
    for difference in report.differences:
        if difference.case != told:
            output.errors().print(f"FAILED {difference.case}", markup=False, style="bold", soft_wrap=True)
            told = difference.case
        faults.show(difference.error, as_json=False)
    typer.echo(report.closing)


def _document(report: Report) -> dict[str, object]:
    differences = [{"case": d.case, **scripts.error_document(d.error)} for d in report.differences]
    answers = [answer.entity() for answer in report.answers]
    counts = {"passed": report.cases - report.failed, "failed": report.failed}
    return {**counts, "differences": differences, "answers": answers}
