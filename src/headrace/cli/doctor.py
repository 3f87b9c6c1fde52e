"""`headrace doctor`."""

from __future__ import annotations

import dataclasses

import typer
from rich.table import Table

from headrace.cli import output
from headrace.cli.call import Call
from headrace.control.checks import CHECKS, FAIL, OK, WARN, Finding
from headrace.errors import HeadraceError
from headrace.settings import Settings

app = typer.Typer()
_STYLES = {OK: "green", WARN: "yellow", FAIL: "bold red"}


@app.command()
def doctor(ctx: typer.Context, as_json: output.Json = False) -> None:
    """Check that this machine has what headrace needs. Exit code 1 if something must be mended.

    Example: headrace doctor
    """
    call: Call = ctx.obj
    call.json |= as_json
    findings = _findings(call)
    if call.json:
        output.print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        output.results().print(_table(findings))
    if any(finding.state == FAIL for finding in findings):
        raise typer.Exit(1)


def _findings(call: Call) -> list[Finding]:
    try:
        settings = call.settings()
        first = Finding("settings", OK, "can be read")
    except HeadraceError as error:
        settings = Settings()
        place = f" ({error.where})" if error.where else ""
        first = Finding("settings", FAIL, error.what + place, error.fix or "")
    return [first, *(finding for check in CHECKS for finding in check(settings))]


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        fix = f"\nfix: {finding.fix}" if finding.fix else ""
        state = f"[{_STYLES[finding.state]}]{finding.state}[/]"
        table.add_row(state, finding.check, (finding.found + fix).replace("[", r"\["))
    return table
