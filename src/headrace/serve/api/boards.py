"""Dashboards that people have saved: charts over views, under a name that is a link."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import BadRequest, NotAllowed, UnknownBoard
from headrace.log.topics import ensure_topic
from headrace.record import Record
from headrace.serve.api.parameters import in_body, in_path
from headrace.serve.api.route import Be, Route
from headrace.serve.api.site import Site

TOPIC = "__dashboards"
MOST = 50
"""Charts of one board."""
_TURN = threading.Lock()
"""Who changes a board has read it just before: two at once would each save it without what the other did."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Board:
    """`panels` are charts, each with its `kind`, `view` and columns. Only its owner, or an admin, changes it."""

    name: str
    title: str
    panels: list[dict[str, Any]]
    owner: str


@dataclass(frozen=True, kw_only=True)
class Named:
    board: str = in_path("The dashboard's name.")


@dataclass(frozen=True, kw_only=True)
class Saved(Named):
    title: str = in_body("What people read.", "")
    panels: list[dict[str, Any]] = in_body("Its charts, in their order.", ())


@dataclass(frozen=True, kw_only=True)
class One(Named):
    """One of its charts, as the dashboard in a browser adds and removes it."""

    panel: dict[str, Any]


def list_boards(site: Site) -> list[Board]:
    """All that were saved."""
    return list(boards(site.log).values())


def get_board(site: Site, asked: Named) -> Board:
    """One dashboard."""
    found = boards(site.log).get(asked.board)
    if found is None:
        raise UnknownBoard(f'there is no dashboard "{asked.board}"', fix="GET /api/v1/boards lists them")
    return found


def save_board(site: Site, asked: Saved) -> Board:
    """Save a dashboard, in the place of one of the same name."""
    with _TURN:
        return _save(site, asked.board, asked.title, list(asked.panels))


def delete_board(site: Site, asked: Named) -> None:
    """Delete a dashboard. What it shows stays."""
    with _TURN:
        _check_owner(site, get_board(site, asked))
        _append(site.log, Record(None, asked.board.encode()))


def add_panel(site: Site, asked: One) -> Board:
    """One more chart on a dashboard as it is now; one that is not there is made."""
    with _TURN:
        found = boards(site.log).get(asked.board)
        title, panels = ("", []) if found is None else (found.title, found.panels)
        return _save(site, asked.board, title, [*panels, asked.panel])


def remove_panel(site: Site, asked: One) -> Board:
    """Without the chart that is told so; one that is gone already is gone."""
    with _TURN:
        found = get_board(site, asked)
        left = list(found.panels)
        if asked.panel in left:
            left.remove(asked.panel)
        return _save(site, asked.board, found.title, left)


def _save(site: Site, name: str, title: str, panels: list[dict[str, Any]]) -> Board:
    if not _NAME.fullmatch(name):
        raise BadRequest(f'"{name[:80]}" cannot be a name', fix="use letters, digits, '.', '_' and '-'")
    if len(panels) > MOST:
        raise BadRequest(f"a dashboard has at most {MOST} charts", fix="make another one")
    before = boards(site.log).get(name)
    if before is not None:
        _check_owner(site, before)
    owner = before.owner if before is not None else site.rights.who.name
    board = Board(name, title or name, panels, owner)
    value = json.dumps({"title": board.title, "panels": board.panels, "owner": owner})
    _append(site.log, Record(value.encode(), board.name.encode()))
    return board


def _check_owner(site: Site, board: Board) -> None:
    if not site.rights.is_admin and site.rights.who.name != board.owner:
        raise NotAllowed(f'dashboard "{board.name}" is {board.owner}\'s', fix="save it under another name")


def _append(log: Log, record: Record) -> None:
    ensure_topic(log, TOPIC, TopicSpec(compact=True))
    log.append([Append(TOPIC, [record], 0)])


def boards(log: Log) -> dict[str, Board]:
    """By name; of each the one that was saved last."""
    ensure_topic(log, TOPIC, TopicSpec(compact=True))
    found: dict[str, Board] = {}
    offset, end = log.bounds(TOPIC)[0]
    while offset < end:
        batch = log.read(TOPIC, 0, offset)
        for record in batch.records():
            name = (record.key or b"").decode()
            found.pop(name, None)
            if record.value is not None:
                found[name] = Board(name, **json.loads(record.value))
        offset = batch.next_offset
    return dict(sorted(found.items()))


ROUTES = (
    Route("GET", "/boards", list_boards, needs=Be.KNOWN),
    Route("GET", "/boards/{board}", get_board, needs=Be.KNOWN),
    Route("PUT", "/boards/{board}", save_board, needs=Be.KNOWN),
    Route("DELETE", "/boards/{board}", delete_board, 204, needs=Be.KNOWN),
)
