"""Dashboards: saved charts over views, under a name that is part of their URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import BadRequest, NotAllowed, UnknownDashboard
from headrace.record import Record
from headrace.serve.api.log_io.dashboard_store import Dashboard, DashboardsByName
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route

MAX_PANELS = 50
"""Maximum charts of one dashboard."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class DashboardRequest:
    board: str = in_path("The dashboard's name.")


@dataclass(frozen=True, kw_only=True)
class SaveDashboardRequest(DashboardRequest):
    title: str = in_body("What people read.", "")
    panels: list[dict[str, Any]] = in_body("Its charts, in their order.", ())


@dataclass(frozen=True, kw_only=True)
class PanelRequest(DashboardRequest):
    """One chart of a dashboard, which the console adds or removes."""

    panel: dict[str, Any]


def list_dashboards(site: RequestContext) -> list[Dashboard]:
    """List all dashboards."""
    return site.dashboards.read(lambda known: [board for _, board in sorted(known.items())])


def get_dashboard(site: RequestContext, asked: DashboardRequest) -> Dashboard:
    """Get one dashboard."""
    return site.dashboards.read(lambda known: _found(known, asked.board))


def save_dashboard(site: RequestContext, asked: SaveDashboardRequest) -> Dashboard:
    """Save a dashboard. It replaces one of the same name."""
    return _change(site, asked.board, lambda before: replace(before, title=asked.title, panels=list(asked.panels)))


def delete_dashboard(site: RequestContext, asked: DashboardRequest) -> None:
    """Delete a dashboard. The views that it shows stay."""

    def decide(known: DashboardsByName) -> tuple[list[Record], None]:
        _check_owner(site, _found(known, asked.board))
        return [Record(None, asked.board.encode())], None

    site.dashboards.change(decide)


def add_panel(site: RequestContext, asked: PanelRequest) -> Dashboard:
    """Add a chart to the current version of a dashboard, which is created if it does not exist."""
    return _change(site, asked.board, lambda before: replace(before, panels=[*before.panels, asked.panel]))


def remove_panel(site: RequestContext, asked: PanelRequest) -> Dashboard:
    """Remove a chart equal to the given one. Does nothing if it does not exist."""

    def change(before: Dashboard) -> Dashboard:
        return replace(before, panels=_without(before.panels, asked.panel))

    return _change(site, asked.board, change, must_exist=True)


def _change(
    site: RequestContext, name: str, change: Callable[[Dashboard], Dashboard], *, must_exist: bool = False
) -> Dashboard:
    """Save the changed dashboard; a new one is empty before, and belongs to the caller."""
    if not _NAME.fullmatch(name):
        raise BadRequest(f'"{name[:80]}" is not a valid name', fix="use letters, digits, '.', '_' and '-'")

    def decide(known: DashboardsByName) -> tuple[list[Record], Dashboard]:
        new = Dashboard(name, "", [], site.rights.who.name)
        before = _found(known, name) if must_exist else known.get(name, new)
        after = change(before)
        if len(after.panels) > MAX_PANELS:
            raise BadRequest(f"a dashboard has at most {MAX_PANELS} charts", fix="save another dashboard")
        _check_owner(site, before)
        saved = replace(after, title=after.title or name)
        return [saved.record()], saved

    return site.dashboards.change(decide)[0]


def _without(panels: list[dict[str, Any]], panel: dict[str, Any]) -> list[dict[str, Any]]:
    left = list(panels)
    if panel in left:
        left.remove(panel)
    return left


def _found(known: DashboardsByName, name: str) -> Dashboard:
    if name not in known:
        raise UnknownDashboard(f'dashboard "{name}" does not exist', fix="GET /api/v1/boards lists them")
    return known[name]


def _check_owner(site: RequestContext, board: Dashboard) -> None:
    if not site.rights.is_admin and site.rights.who.name != board.owner:
        raise NotAllowed(f'dashboard "{board.name}" belongs to {board.owner}', fix="save it under another name")


ROUTES = (
    Route("GET", "/boards", list_dashboards, needs=AccessLevel.KNOWN),
    Route("GET", "/boards/{board}", get_dashboard, needs=AccessLevel.KNOWN),
    Route("PUT", "/boards/{board}", save_dashboard, needs=AccessLevel.KNOWN),
    Route("DELETE", "/boards/{board}", delete_dashboard, 204, needs=AccessLevel.KNOWN),
)
