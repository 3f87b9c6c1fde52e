"""Notices as they lie in their topic, what became of them, and which alerts are raised now.

    found, following = notices_from(log, offset)
    board = Board(log)
    board.raised("ALERT_HOT_0")

Two further topics are written by `marks`: `MARKS` has, by notifier, how far it is and what it is about to send; `SENT`
what became of each message. The board follows all three, and knows what they have said so far.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.access.decision import Rights
from headrace.access.guard import Guard
from headrace.access.who import LOCAL, Who
from headrace.contracts import Bounds, Log
from headrace.deliver.contract import Notice
from headrace.errors import UnknownTopic
from headrace.plan.alerts import RAISED, TOPIC
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query
from headrace.record import StoredRecord

MARKS = "__alerts_marks"
SENT = "__alerts_sent"
_PAGE = 500
_REMEMBERED = 20_000  # notices of which it is known what became of them


@dataclass(frozen=True)
class Outcome:
    """What became of a message, or of some of its notices.

    `state` is sent (with a reason if not everybody has it), dead (with the reason), muted, dropped (its alert was), or
    lost (removed from the topic before it was sent).
    """

    notifier: str
    message: str
    alert: str
    notices: tuple[str, ...]
    state: str
    at: int
    tries: int = 0
    reason: str | None = None


def bounds_of(log: Log, topic: str) -> Bounds:
    """Of a topic of one partition; one that is not there yet is empty."""
    try:
        return log.bounds(topic)[0]
    except UnknownTopic:
        return Bounds(0, 0)


def records_from(log: Log, topic: str, offset: int, most: int = _PAGE) -> list[StoredRecord]:
    """The next records at or behind an offset, fewer than `most` only at the end; what was removed is passed over."""
    start, end = bounds_of(log, topic)
    offset = max(offset, start)
    found: list[StoredRecord] = []
    while offset < end and len(found) < most:  # a read may give fewer than asked for
        batch = log.read(topic, 0, offset, max_records=most - len(found))
        found += batch.records()
        if batch.next_offset <= offset:
            break
        offset = batch.next_offset
    return found


def notice_of(record: StoredRecord) -> Notice | None:
    """None for what somebody else has written there."""
    try:
        found = {name.lower(): value for name, value in json.loads(record.value or b"").items()}
        found["notify"] = tuple(found["notify"] or ())
        return Notice(target=(record.key or b"").decode(), **found)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


Placed = tuple[int, Notice]
"""With its offset."""


def notices_from(log: Log, offset: int, most: int = _PAGE) -> tuple[list[Placed], int]:
    """The next ones, and where to read on."""
    records = records_from(log, TOPIC, offset, most)
    found = ((record.offset, notice_of(record)) for record in records)
    return [(at, notice) for at, notice in found if notice is not None], records[-1].offset + 1 if records else offset


def newest(log: Log, before: int | None = None) -> Iterator[Placed]:
    """From the last one back."""
    start, end = bounds_of(log, TOPIC)
    end = end if before is None else min(end, before)
    while end > start:
        first = max(start, end - _PAGE)
        page, _ = notices_from(log, first, end - first)
        yield from reversed([(at, notice) for at, notice in page if at < end])
        end = first


@dataclass
class Board:
    """May be shared by threads."""

    log: Log
    _raised: dict[tuple[str, str], Notice] = field(default_factory=dict)
    """By query and target."""
    _outcomes: OrderedDict[str, dict[str, Outcome]] = field(default_factory=OrderedDict)
    """By notice and notifier."""
    _marks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By notifier."""
    _places: dict[str, int] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def raised(self, query: str) -> list[Notice]:
        """What an alert's query has raised and not cleared."""
        with self._turn:
            self._follow()
            return [notice for (of, _), notice in self._raised.items() if of == query]

    def outcomes(self, notice: str) -> list[Outcome]:
        with self._turn:
            self._follow()
            return list(self._outcomes.get(notice, {}).values())

    def is_done(self, place: int, notifier: str) -> bool:
        """Whether a notifier has nothing left to do with the notice at a place, be it known or not what it did."""
        with self._turn:
            self._follow()
            mark = self._marks.get(notifier, {"next": 0, "upto": 0, "planned": []})
            left = any(place in planned["offsets"] for planned in mark["planned"])
            return place < (mark["upto"] if mark["planned"] else mark["next"]) and not left

    def keep(self, queries: Container[str]) -> None:
        """Only what these queries raised."""
        with self._turn:
            self._raised = {key: notice for key, notice in self._raised.items() if key[0] in queries}

    def _follow(self) -> None:
        for record in self._new(TOPIC):
            if (notice := notice_of(record)) is not None:
                self._note(notice)
        for record in self._new(SENT):
            self._settle(outcome_of(record))
        for record in self._new(MARKS):
            self._marks[(record.key or b"").decode()] = json.loads(record.value or b"{}")
        while len(self._outcomes) > _REMEMBERED:
            self._outcomes.popitem(last=False)

    def _new(self, topic: str) -> Iterator[StoredRecord]:
        while found := records_from(self.log, topic, self._places.get(topic, 0)):
            yield from found
            self._places[topic] = found[-1].offset + 1

    def _note(self, notice: Notice) -> None:
        if notice.state == RAISED:
            self._raised[notice.query, notice.target] = notice
        else:
            self._raised.pop((notice.query, notice.target), None)

    def _settle(self, outcome: Outcome) -> None:
        for notice in outcome.notices:
            self._outcomes.setdefault(notice, {})[outcome.notifier] = outcome


def outcome_of(record: StoredRecord) -> Outcome:
    found = json.loads(record.value or b"{}")
    return Outcome(**{**found, "notices": tuple(found["notices"])})


# -- who may see them -----------------------------------------------------------------------------------------------


def sees_notices(rights: Rights, query: Query) -> bool:
    """A notice tells of rows whoever they belong to: who may see it sees all of what the alert looks at."""
    return rights.is_admin or all(rights.sees_all(one.name, one.topic) for one in query.sources)


def is_shown(guard: Guard, catalog: Catalog, owner: str, query: str) -> bool:
    """Whether a user, by the rights of this moment, may see an alert's notices. Who is no user here may not."""
    if owner == LOCAL.name:
        return True
    user, found = guard.book.state.users.get(owner), catalog.queries.get(query)
    if user is None or found is None:
        return False
    return sees_notices(guard.rights(Who(user.name, user.roles)), found)
