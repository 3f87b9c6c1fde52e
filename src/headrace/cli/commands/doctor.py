"""`headrace doctor`: check the installation."""

from __future__ import annotations

import dataclasses

import typer
from rich.table import Table

from headrace.cli.context import CommandContext
from headrace.cli.io import error_output, output
from headrace.control.admin.doctor import CHECKS, FAIL, OK, WARN, Check, CheckResult
from headrace.errors import HeadraceError
from headrace.settings import Settings

app = typer.Typer()
_STYLES = {OK: "green", WARN: "yellow", FAIL: "bold red"}


@app.command()
def doctor(ctx: typer.Context, as_json: output.Json = False) -> None:
    """Check that this machine has what headrace needs.

    The exit code is 1 if a check fails; each failed check shows a fix.

    Example: headrace doctor
    """
    call: CommandContext = ctx.obj
    call.json |= as_json
    findings = _findings(call)
    if call.json:
        output.print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        output.stdout_console().print(_table(findings))
    if any(finding.state == FAIL for finding in findings):
        raise typer.Exit(1)


def _findings(call: CommandContext) -> list[CheckResult]:
    try:
        settings = call.settings()
        first = CheckResult("settings", OK, "can be read")
    except HeadraceError as error:
        settings = Settings()
        place = f" ({error.where})" if error.where else ""
        first = CheckResult("settings", FAIL, error.what + place, error.fix or "")
    return [first, *(finding for check in CHECKS for finding in _run(check, settings))]


def _run(check: Check, settings: Settings) -> list[CheckResult]:
    """The results of a check. A file that cannot be read fails this check only."""
    try:
        return list(check(settings))
    except OSError as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        failure = error_output.system_error(error)
        return [CheckResult(name, FAIL, failure.what, failure.fix or "")]


def _table(findings: list[CheckResult]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        fix = f"\nfix: {finding.fix}" if finding.fix else ""
        state = f"[{_STYLES[finding.state]}]{finding.state}[/]"
        table.add_row(state, finding.check, (finding.found + fix).replace("[", r"\["))
    return table
