"""Dashboards: saved charts over views, under a name that is part of their URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import BadRequest, NotAllowed, UnknownDashboard
from headrace.record import Record
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.dashboard_store import Dashboard, DashboardsByName
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route

MAX_PANELS = 50
"""Maximum charts of one dashboard."""
_NAME = re.compile(r"\w(?:[\w .-]{0,98}[\w.-])?")


@dataclass(frozen=True, kw_only=True)
class DashboardRequest:
    dashboard: str = in_path("The dashboard's name.")


@dataclass(frozen=True, kw_only=True)
class SaveDashboardRequest(DashboardRequest):
    title: str = in_body("What people read.", "")
    panels: list[dict[str, Any]] = in_body("Its charts, in their order.", ())


@dataclass(frozen=True, kw_only=True)
class PanelRequest(DashboardRequest):
    """One chart of a dashboard, which the console adds, at its `place` or at the end, or removes."""

    panel: dict[str, Any]
    place: int | None = None


def list_dashboards(context: RequestContext) -> list[Dashboard]:
    """List all dashboards."""
    return context.dashboards.read(lambda known: [dashboard for _, dashboard in sorted(known.items())])


def get_dashboard(context: RequestContext, params: DashboardRequest) -> Dashboard:
    """Get one dashboard."""
    return context.dashboards.read(lambda known: _found(known, params.dashboard))


def save_dashboard(context: RequestContext, params: SaveDashboardRequest) -> Dashboard:
    """Save a dashboard. It replaces one of the same name."""
    return _change(
        context, params.dashboard, lambda before: replace(before, title=params.title, panels=list(params.panels))
    )


def delete_dashboard(context: RequestContext, params: DashboardRequest) -> None:
    """Delete a dashboard. The views that it shows stay."""

    def decide(known: DashboardsByName) -> tuple[list[Record], None]:
        _check_owner(context, _found(known, params.dashboard))
        return [Record(None, params.dashboard.encode())], None

    context.dashboards.change(decide)


def add_panel(context: RequestContext, params: PanelRequest) -> Dashboard:
    """Add a chart to the current version of a dashboard, which is created if it does not exist."""

    def change(before: Dashboard) -> Dashboard:
        place = len(before.panels) if params.place is None else params.place
        return replace(before, panels=[*before.panels[:place], params.panel, *before.panels[place:]])

    return _change(context, params.dashboard, change)


def remove_panel(context: RequestContext, params: PanelRequest) -> Dashboard:
    """Remove a chart equal to the given one. Does nothing if it does not exist."""

    def change(before: Dashboard) -> Dashboard:
        return replace(before, panels=_without(before.panels, params.panel))

    return _change(context, params.dashboard, change, must_exist=True)


def _change(
    context: RequestContext, name: str, change: Callable[[Dashboard], Dashboard], *, must_exist: bool = False
) -> Dashboard:
    """Save the changed dashboard; a new one is empty before, and belongs to the caller."""
    if not _NAME.fullmatch(name):
        fix = "use up to 100 letters, digits, spaces, '.', '_' and '-'; begin with a letter or a digit"
        raise BadRequest(f'"{name[:80]}" is not a valid dashboard name', fix=fix)

    def decide(known: DashboardsByName) -> tuple[list[Record], Dashboard]:
        new = Dashboard(name, "", [], context.rights.principal.name)
        before = _found(known, name) if must_exist else known.get(name, new)
        after = change(before)
        if len(after.panels) > MAX_PANELS:
            raise BadRequest(f"a dashboard has at most {MAX_PANELS} charts", fix="create another dashboard")
        _check_owner(context, before)
        saved = replace(after, title=after.title or name)
        return [saved.record()], saved

    return context.dashboards.change(decide)[0]


def _without(panels: list[dict[str, Any]], panel: dict[str, Any]) -> list[dict[str, Any]]:
    left = list(panels)
    if panel in left:
        left.remove(panel)
    return left


def _found(known: DashboardsByName, name: str) -> Dashboard:
    if name not in known:
        raise UnknownDashboard(f'dashboard "{name}" does not exist', fix="GET /api/v1/dashboards lists them")
    return known[name]


def _check_owner(context: RequestContext, dashboard: Dashboard) -> None:
    if not context.rights.is_admin and context.rights.principal.name != dashboard.owner:
        raise NotAllowed(f'dashboard "{dashboard.name}" belongs to {dashboard.owner}', fix="save it under another name")


ROUTES = (
    Route("GET", "/dashboards", list_dashboards, needs=AccessLevel.KNOWN, work=WorkClass.CONSOLE),
    Route("GET", "/dashboards/{dashboard}", get_dashboard, needs=AccessLevel.KNOWN, work=WorkClass.CONSOLE),
    Route("PUT", "/dashboards/{dashboard}", save_dashboard, needs=AccessLevel.KNOWN, work=WorkClass.CONSOLE),
    Route("DELETE", "/dashboards/{dashboard}", delete_dashboard, 204, needs=AccessLevel.KNOWN, work=WorkClass.CONSOLE),
)
