"""Dashboards: saved charts over views, under a name that is part of their URL, private or shared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import BadRequest, NotAllowed, UnknownDashboard
from headrace.record import Record
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.dashboard_store import Dashboard, DashboardsByName, Sharing
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route

MAX_PANELS = 50
"""Maximum charts of one dashboard."""
MAX_BYTES = 256 << 10
"""Maximum size of one dashboard as it is stored."""
MAX_DASHBOARDS = 200
"""Maximum dashboards of one owner."""
_NAME = re.compile(r"\w(?:[\w .-]{0,98}[\w.-])?")


@dataclass(frozen=True, kw_only=True)
class DashboardRequest:
    dashboard: str = in_path("The dashboard's name.")


@dataclass(frozen=True, kw_only=True)
class SaveDashboardRequest(DashboardRequest):
    title: str = in_body("What people read.", "")
    panels: list[dict[str, Any]] = in_body("Its charts, in their order.", ())
    sharing: str | None = in_body(
        "`private`, or what others may do: `read` or `edit`. Default: as before; a new one is private.", None
    )


@dataclass(frozen=True, kw_only=True)
class ShareRequest(DashboardRequest):
    """Who else may see or change a dashboard, as chosen in the console."""

    sharing: str


@dataclass(frozen=True, kw_only=True)
class PanelRequest(DashboardRequest):
    """One chart of a dashboard, which the console adds, at its `place` or at the end, or removes."""

    panel: dict[str, Any]
    place: int | None = None


def list_dashboards(context: RequestContext) -> list[Dashboard]:
    """List your dashboards, and those that are shared."""
    return context.dashboards.read(
        lambda known: [dashboard for _, dashboard in sorted(known.items()) if _may_see(context, dashboard)]
    )


def get_dashboard(context: RequestContext, params: DashboardRequest) -> Dashboard:
    """Get one dashboard."""
    return context.dashboards.read(lambda known: _visible_dashboard(context, known, params.dashboard))


def save_dashboard(context: RequestContext, params: SaveDashboardRequest) -> Dashboard:
    """Save a dashboard. It replaces one of the same name."""

    def change(before: Dashboard) -> Dashboard:
        sharing = before.sharing if params.sharing is None else _sharing(params.sharing)
        return replace(before, title=params.title, panels=list(params.panels), sharing=sharing)

    return _change(context, params.dashboard, change)


def share_dashboard(context: RequestContext, params: ShareRequest) -> Dashboard:
    """Share a dashboard, or make it private."""
    sharing = _sharing(params.sharing)
    return _change(context, params.dashboard, lambda before: replace(before, sharing=sharing), must_exist=True)


def delete_dashboard(context: RequestContext, params: DashboardRequest) -> None:
    """Delete a dashboard. The views that it shows stay."""

    def decide(known: DashboardsByName) -> tuple[list[Record], None]:
        _check_owner(context, _visible_dashboard(context, known, params.dashboard))
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
        new = Dashboard(name, "", [], context.rights.principal.name, Sharing.PRIVATE)
        before = _visible_dashboard(context, known, name) if must_exist else known.get(name, new)
        if name not in known:
            _check_number(known, new.owner)
        after = change(before)
        _check_change(context, before, after)
        saved = replace(after, title=after.title or name)
        return [_checked_record(saved)], saved

    return context.dashboards.change(decide)[0]


def _without(panels: list[dict[str, Any]], panel: dict[str, Any]) -> list[dict[str, Any]]:
    left = list(panels)
    if panel in left:
        left.remove(panel)
    return left


def _sharing(text: str) -> Sharing:
    if text not in tuple(Sharing):
        raise BadRequest(f'"sharing" cannot be "{text[:80]}"', fix=f"choose one of: {', '.join(Sharing)}")
    return Sharing(text)


def _visible_dashboard(context: RequestContext, dashboards: DashboardsByName, name: str) -> Dashboard:
    """The dashboard; one that the caller may not see is unknown."""
    if name not in dashboards or not _may_see(context, dashboards[name]):
        raise UnknownDashboard(f'dashboard "{name}" does not exist', fix="GET /api/v1/dashboards lists them")
    return dashboards[name]


# -- rights and quotas ----------------------------------------------------------------------------------------------


def owns(context: RequestContext, dashboard: Dashboard) -> bool:
    """Whether the caller is the dashboard's owner, or an admin."""
    return context.rights.is_admin or context.rights.principal.name == dashboard.owner


def may_edit(context: RequestContext, dashboard: Dashboard) -> bool:
    """Whether the caller may change the dashboard's charts."""
    return owns(context, dashboard) or dashboard.sharing == Sharing.EDIT


def _may_see(context: RequestContext, dashboard: Dashboard) -> bool:
    return owns(context, dashboard) or dashboard.sharing != Sharing.PRIVATE


def _check_owner(context: RequestContext, dashboard: Dashboard) -> None:
    if not owns(context, dashboard):
        raise NotAllowed(f'dashboard "{dashboard.name}" belongs to another user', fix="save it under another name")


def _check_change(context: RequestContext, before: Dashboard, after: Dashboard) -> None:
    if before.sharing != after.sharing or not may_edit(context, before):
        _check_owner(context, before)


def _check_number(known: DashboardsByName, owner: str) -> None:
    if sum(one.owner == owner for one in known.values()) >= MAX_DASHBOARDS:
        raise BadRequest(f"{owner} has {MAX_DASHBOARDS} dashboards, as many as a user may have", fix="delete one")


def _checked_record(dashboard: Dashboard) -> Record:
    if len(dashboard.panels) > MAX_PANELS:
        raise BadRequest(f"a dashboard has at most {MAX_PANELS} charts", fix="create another dashboard")
    record = dashboard.record()
    if len(record.value or b"") > MAX_BYTES:
        raise BadRequest(f"a dashboard has at most {MAX_BYTES >> 10} KiB", fix="shorten the filters, or create another")
    return record


ROUTES = (
    Route("GET", "/dashboards", list_dashboards, needs=AccessLevel.KNOWN, work=WorkClass.CONSOLE),
    Route("GET", "/dashboards/{dashboard}", get_dashboard, needs=AccessLevel.KNOWN, work=WorkClass.CONSOLE),
    Route("PUT", "/dashboards/{dashboard}", save_dashboard, needs=AccessLevel.KNOWN, work=WorkClass.CONSOLE),
    Route("DELETE", "/dashboards/{dashboard}", delete_dashboard, 204, needs=AccessLevel.KNOWN, work=WorkClass.CONSOLE),
)
