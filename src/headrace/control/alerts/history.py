"""Reads alert notices from their topic, the outcomes of their delivery, and the alerts that are currently raised.

    notices, next_offset = read_notices(log, offset)
    history = AlertHistory(log)
    history.raised("ALERT_HOT_0")

`offsets` writes two further topics: `OFFSETS_TOPIC` has, by notifier, its offset and the messages that it plans to
send; `OUTCOMES_TOPIC` has the outcome of each message. `AlertHistory` follows all three topics.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from headrace.access.authorization import Rights
from headrace.access.guard import Guard
from headrace.contracts import Log
from headrace.log.folded_topic import read_records, topic_bounds
from headrace.notifiers.contract import Notice
from headrace.plan.alerts import RAISED, TOPIC
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query
from headrace.record import StoredRecord
from headrace.watched_lock import WatchedLock

OFFSETS_TOPIC = "__alerts_marks"
OUTCOMES_TOPIC = "__alerts_sent"
_READ_SIZE = 500
_MAX_OUTCOMES = 20_000  # notices whose outcomes are kept in memory


@dataclass(frozen=True)
class DeliveryOutcome:
    """The outcome of a message, or of some of its notices.

    `state` is sent (with a reason if some receivers did not get it), dead (with the reason), muted, dropped (the alert
    was dropped), or lost (removed from the topic before it was sent).
    """

    notifier: str
    message: str
    alert: str
    notices: tuple[str, ...]
    state: str
    at: int
    tries: int = 0
    reason: str | None = None


def parse_notice(record: StoredRecord) -> Notice | None:
    """Parse a notice; None for a record that is not one."""
    try:
        fields = {name.lower(): value for name, value in json.loads(record.value or b"").items()}
        fields["notify"] = tuple(fields["notify"] or ())
        return Notice(target=(record.key or b"").decode(), **fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


NoticeAtOffset = tuple[int, Notice]
"""A notice with its offset."""


def read_notices(log: Log, offset: int, limit: int = _READ_SIZE) -> tuple[list[NoticeAtOffset], int]:
    """The next notices, and the offset to read next."""
    records = [*islice(read_records(log, TOPIC, offset, limit), limit)]
    parsed = ((record.offset, parse_notice(record)) for record in records)
    return [(at, notice) for at, notice in parsed if notice is not None], records[-1].offset + 1 if records else offset


def newest_notices(log: Log, before: int | None = None) -> Iterator[NoticeAtOffset]:
    """Notices from the newest to the oldest."""
    start, end = topic_bounds(log, TOPIC)
    end = end if before is None else min(end, before)
    while end > start:
        first = max(start, end - _READ_SIZE)
        page, _ = read_notices(log, first, end - first)
        yield from reversed([(at, notice) for at, notice in page if at < end])
        end = first


@dataclass
class AlertHistory:
    """Thread-safe."""

    log: Log
    _raised: dict[tuple[str, str], Notice] = field(default_factory=dict)
    """By query and target."""
    _outcomes: OrderedDict[str, dict[str, DeliveryOutcome]] = field(default_factory=OrderedDict)
    """By notice and notifier."""
    _offsets: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By notifier."""
    _positions: dict[str, int] = field(default_factory=dict)
    _lock: WatchedLock = field(default_factory=lambda: WatchedLock("history of notices"))

    def raised(self, query: str) -> list[Notice]:
        """Notices that an alert's query has raised and not cleared."""
        with self._lock:
            self._read_new()
            return [notice for (of, _), notice in self._raised.items() if of == query]

    def outcomes(self, notice: str) -> list[DeliveryOutcome]:
        with self._lock:
            self._read_new()
            return list(self._outcomes.get(notice, {}).values())

    def is_done(self, offset: int, notifier: str) -> bool:
        """Whether a notifier is done with the notice at an offset, even if its outcome is no longer known."""
        with self._lock:
            self._read_new()
            stored = self._offsets.get(notifier, {"next": 0, "upto": 0, "planned": []})
            is_planned = any(offset in planned["offsets"] for planned in stored["planned"])
            return offset < (stored["upto"] if stored["planned"] else stored["next"]) and not is_planned

    def forget_other_queries(self, queries: Container[str]) -> None:
        """Forget raised notices of other queries."""
        with self._lock:
            self._raised = {key: notice for key, notice in self._raised.items() if key[0] in queries}

    def _read_new(self) -> None:
        for record in self._new_records(TOPIC):
            if (notice := parse_notice(record)) is not None:
                self._add_notice(notice)
        for record in self._new_records(OUTCOMES_TOPIC):
            self._add_outcome(parse_outcome(record))
        for record in self._new_records(OFFSETS_TOPIC):
            self._offsets[(record.key or b"").decode()] = json.loads(record.value or b"{}")
        while len(self._outcomes) > _MAX_OUTCOMES:
            self._outcomes.popitem(last=False)

    def _new_records(self, topic: str) -> Iterator[StoredRecord]:
        for record in read_records(self.log, topic, self._positions.get(topic, 0)):
            yield record
            self._positions[topic] = record.offset + 1

    def _add_notice(self, notice: Notice) -> None:
        if notice.state == RAISED:
            self._raised[notice.query, notice.target] = notice
        else:
            self._raised.pop((notice.query, notice.target), None)

    def _add_outcome(self, outcome: DeliveryOutcome) -> None:
        for notice in outcome.notices:
            self._outcomes.setdefault(notice, {})[outcome.notifier] = outcome


def parse_outcome(record: StoredRecord) -> DeliveryOutcome:
    document = json.loads(record.value or b"{}")
    return DeliveryOutcome(**{**document, "notices": tuple(document["notices"])})


# -- visibility -----------------------------------------------------------------------------------------------------


def can_see_notices(rights: Rights, query: Query) -> bool:
    """Whether the principal may read all rows of the alert's sources: a notice may contain any of them."""
    return rights.is_admin or all(rights.sees_all(one.name, one.topic) for one in query.sources)


def user_can_see_notices(guard: Guard, catalog: Catalog, owner: str, query: str) -> bool:
    """Whether a user, by their current rights, may see an alert's notices. An unknown user may not."""
    rights, alert = guard.rights_of(owner), catalog.queries.get(query)
    if rights is None or alert is None:
        return rights is not None and rights.is_admin
    return can_see_notices(rights, alert)
