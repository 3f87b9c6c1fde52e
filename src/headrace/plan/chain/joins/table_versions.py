"""Versions of a table for joins by event time: the table's row at a stream row's own time, whenever that arrives.

A version is valid from its time until that of the next version of its key; of two changes with the same time the last
to arrive is valid. A late change is inserted among the versions: rows that arrive after it see it, rows that arrived
before it are not emitted again. So a result depends on the order of arrival only where the table was late.

Time is the latest time among rows and changes so far. Versions are stored as long as a row that is late by at most the
history can need them; a row that is later than that is reported as `late-record` and dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import Any

from headrace.plan.chain.aggregation.windows import StreamClock
from headrace.plan.chain.timeline import Timeline
from headrace.plan.steps import Context, Row

_FROM = itemgetter(0)


class TableVersions:
    """Stores: `versions`, by key, rows (None is a deletion) with the time from which they are valid, in that order;
    `ages`, when to clean up which keys.
    """

    def __init__(self, context: Context, history: int) -> None:
        self._versions = context.store("versions")
        self._ages = Timeline(context.store("ages"), history // 16)
        self._clock = StreamClock(context)
        self._history = history

    def put(self, time: int, key: Any, row: Row | None) -> None:
        versions = self._versions.get(key, [])
        versions.insert(bisect_right(versions, time, key=_FROM), (time, row))
        self._versions[key] = versions
        self._ages.add((time, b"", key))
        self.advance(time)

    def at(self, time: int, key: Any) -> Row | None:
        """Returns the row that is valid at that time."""
        versions = self._versions.get(key, ())
        place = bisect_right(versions, time, key=_FROM)
        return versions[place - 1][1] if place else None

    def is_forgotten(self, time: int) -> bool:
        """Whether the version valid at that time may have been dropped."""
        return time < self._clock.now - self._history

    def advance(self, time: int) -> None:
        if time > self._clock.now:
            self._clock.advance(time)
            for _, _, key in self._ages.take(time - self._history):
                self._forget(key, time - self._history)

    def _forget(self, key: Any, until: int) -> None:
        """Drops versions replaced by then: the version valid at that time stays, unless it is a deletion."""
        versions = self._versions.pop(key, [])
        valid = bisect_right(versions, until, key=_FROM) - 1
        if valid >= 0:
            versions = versions[valid + (versions[valid][1] is None) :]
        if versions:
            self._versions[key] = versions
