"""Dashboards: saved charts over views, under a name that is part of their URL."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import BadRequest, NotAllowed, UnknownDashboard
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route

TOPIC = "__dashboards"
MAX_PANELS = 50
"""Maximum charts of one dashboard."""
_TURN = threading.Lock()
"""Serializes read-modify-write: of two concurrent changes to a dashboard, one would be lost."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Dashboard:
    """A saved dashboard. `panels` are charts, each with its `kind`, `view` and columns. Only its owner or an admin may
    change it.
    """

    name: str
    title: str
    panels: list[dict[str, Any]]
    owner: str


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
    return list(load_dashboards(site.log).values())


def get_dashboard(site: RequestContext, asked: DashboardRequest) -> Dashboard:
    """Get one dashboard."""
    found = load_dashboards(site.log).get(asked.board)
    if found is None:
        raise UnknownDashboard(f'there is no dashboard "{asked.board}"', fix="GET /api/v1/boards lists them")
    return found


def save_dashboard(site: RequestContext, asked: SaveDashboardRequest) -> Dashboard:
    """Save a dashboard. It replaces one of the same name."""
    with _TURN:
        return _save(site, asked.board, asked.title, list(asked.panels))


def delete_dashboard(site: RequestContext, asked: DashboardRequest) -> None:
    """Delete a dashboard. The views that it shows stay."""
    with _TURN:
        _check_owner(site, get_dashboard(site, asked))
        _append(site.log, Record(None, asked.board.encode()))


def add_panel(site: RequestContext, asked: PanelRequest) -> Dashboard:
    """Add a chart to the current version of a dashboard, which is created if it does not exist."""
    with _TURN:
        found = load_dashboards(site.log).get(asked.board)
        title, panels = ("", []) if found is None else (found.title, found.panels)
        return _save(site, asked.board, title, [*panels, asked.panel])


def remove_panel(site: RequestContext, asked: PanelRequest) -> Dashboard:
    """Remove a chart equal to the given one. Does nothing if it does not exist."""
    with _TURN:
        found = get_dashboard(site, asked)
        left = list(found.panels)
        if asked.panel in left:
            left.remove(asked.panel)
        return _save(site, asked.board, found.title, left)


def _save(site: RequestContext, name: str, title: str, panels: list[dict[str, Any]]) -> Dashboard:
    if not _NAME.fullmatch(name):
        raise BadRequest(f'"{name[:80]}" cannot be a name', fix="use letters, digits, '.', '_' and '-'")
    if len(panels) > MAX_PANELS:
        raise BadRequest(f"a dashboard has at most {MAX_PANELS} charts", fix="make another one")
    before = load_dashboards(site.log).get(name)
    if before is not None:
        _check_owner(site, before)
    owner = before.owner if before is not None else site.rights.who.name
    board = Dashboard(name, title or name, panels, owner)
    value = json.dumps({"title": board.title, "panels": board.panels, "owner": owner})
    _append(site.log, Record(value.encode(), board.name.encode()))
    return board


def _check_owner(site: RequestContext, board: Dashboard) -> None:
    if not site.rights.is_admin and site.rights.who.name != board.owner:
        raise NotAllowed(f'dashboard "{board.name}" is {board.owner}\'s', fix="save it under another name")


def _append(log: Log, record: Record) -> None:
    ensure_topic(log, TOPIC, TopicSpec(compact=True))
    log.append([Append(TOPIC, [record], 0)])


def load_dashboards(log: Log) -> dict[str, Dashboard]:
    """The dashboards by name, each as last saved."""
    ensure_topic(log, TOPIC, TopicSpec(compact=True))
    found: dict[str, Dashboard] = {}
    offset, end = log.bounds(TOPIC)[0]
    while offset < end:
        batch = log.read(TOPIC, 0, offset)
        for record in batch.records():
            name = (record.key or b"").decode()
            found.pop(name, None)
            if record.value is not None:
                found[name] = Dashboard(name, **json.loads(record.value))
        offset = batch.next_offset
    return dict(sorted(found.items()))


ROUTES = (
    Route("GET", "/boards", list_dashboards, needs=AccessLevel.KNOWN),
    Route("GET", "/boards/{board}", get_dashboard, needs=AccessLevel.KNOWN),
    Route("PUT", "/boards/{board}", save_dashboard, needs=AccessLevel.KNOWN),
    Route("DELETE", "/boards/{board}", delete_dashboard, 204, needs=AccessLevel.KNOWN),
)
