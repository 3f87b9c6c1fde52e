"""The doctor page: checks of this machine, and every setting with its origin."""

from __future__ import annotations

import dataclasses
from importlib.metadata import version

from nicegui import ui

from headrace.control.admin.doctor import CHECKS, OK, CheckResult
from headrace.secrets import MASK
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.widgets.layout import Column, Grid, html_text
from headrace.serve.console.widgets.number_format import plain_text
from headrace.settings import Settings, resolve_settings


async def doctor(context: PageContext) -> None:
    """For admins: it shows folders and addresses."""
    context.rights.check_admin("see this page")
    settings = context.api.node.settings
    summary = html_text("p", "Running the checks…").props("role=status")
    result, fix = Column("found", "Result", wraps=True), Column("fix", "Fix", wraps=True)
    checks = Grid(Column("check", "Check"), Column("state", "State"), result, fix, empty="")

    async def refresh() -> None:
        findings = [_own(), *await context.api.run(_findings, settings)]
        bad = [finding for finding in findings if finding.state != OK]
        summary.set_text(f"{len(bad)} of {len(findings)} checks need attention." if bad else "All checks passed.")
        checks.show([dataclasses.asdict(finding) for finding in [*bad, *(one for one in findings if one.state == OK)]])

    ui.timer(0, refresh, once=True)  # after the page is shown: a check that does not respond would delay it
    html_text("h2", "Settings")
    value, doc = Column("value", "Value", wraps=True), Column("doc", "Description", wraps=True)
    grid = Grid(Column("name", "Setting"), value, Column("origin", "Origin"), doc)
    grid.show(_setting_rows(settings))


def _own() -> CheckResult:
    return CheckResult("headrace", OK, version("headrace"))


def _findings(settings: Settings) -> list[CheckResult]:
    return [finding for check in CHECKS for finding in check(settings)]


def _setting_rows(settings: Settings) -> list[dict[str, object]]:
    """The settings with their origins. A value that differs from file and environment was given as a flag."""
    rows: list[dict[str, object]] = []
    for one in resolve_settings():
        value = settings.value(one.spec)
        text = MASK if one.secret and value else "" if value is None else plain_text(value)
        rows.append(
            {"name": one.name, "value": text, "origin": one.origin if value == one.value else "flag", "doc": one.doc}
        )
    return rows
