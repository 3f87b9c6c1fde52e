"""The doctor: whether this machine has what the server needs, and every setting with where it comes from."""

from __future__ import annotations

import dataclasses
from importlib.metadata import version

from nicegui import ui
from starlette.concurrency import run_in_threadpool

from headrace.control.checks import CHECKS, OK, Finding
from headrace.secrets import MASK
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Grid, text
from headrace.settings import Settings, resolve


async def doctor(desk: Desk) -> None:
    """For admins: it tells of folders and addresses."""
    desk.rights.check_admin("see how the machine is doing")
    settings = desk.site.node.settings
    told = text("p", "Looking.").props("role=status")
    checks = Grid(Column("check", "Check"), Column("state", "State"), Column("found", "Found"), Column("fix", "Fix"))

    async def look() -> None:
        found = [_own(), *await run_in_threadpool(_findings, settings)]
        bad = [finding for finding in found if finding.state != OK]
        told.set_text(f"{len(bad)} of {len(found)} want a look." if bad else "Everything is as it should be.")
        checks.show([dataclasses.asdict(finding) for finding in [*bad, *(one for one in found if one.state == OK)]])

    ui.timer(0, look, once=True)  # once the page is there: what does not answer would hold it up
    text("h2", "Settings")
    grid = Grid(
        Column("name", "Setting"), Column("value", "Value"), Column("origin", "From"), Column("doc", "What it is")
    )
    grid.show(_told(settings))


def _own() -> Finding:
    return Finding("headrace", OK, version("headrace"))


def _findings(settings: Settings) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(settings)]


def _told(settings: Settings) -> list[dict[str, object]]:
    """What differs from file and environment was said when the server was started."""
    rows: list[dict[str, object]] = []
    for one in resolve():
        value = getattr(settings, one.name)
        shown = MASK if one.secret and value else str(value)
        rows.append(
            {"name": one.name, "value": shown, "origin": one.origin if value == one.value else "flag", "doc": one.doc}
        )
    return rows
