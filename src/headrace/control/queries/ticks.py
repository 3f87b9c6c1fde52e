"""Appends ticks for queries without input: when a deadline is due, a tick goes to the query's tick topic.

While no records arrive, event time advances with the clock: a deadline that lies 10 s after the latest record is due
10 s after the batch with that record began. So a stream of last week's records closes its windows as it would have
then, and not all at once because the wall clock is far ahead.

A tick is an ordinary record: ordered, logged, replayed. Only a query that has read all its input gets one, since a
record that is already in the log must be processed before its time is over. A query without a deadline costs nothing.
Event time is stored next to the checkpoint, so that a deadline is also met after a restart; the time while a query was
not running counts.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.clock import Clock
from headrace.contracts import Append, Log
from headrace.control.workers.handle import TickTarget
from headrace.errors import HeadraceError
from headrace.log.stored_rows import from_records
from headrace.plan.nodes import Query, walk
from headrace.record import Record

_logger = logging.getLogger(__name__)
_BUSY_WAIT = 0.05  # seconds until a busy query is checked again
_CLOSE_TIMEOUT = 60.0  # seconds: a tick may be being appended
_MAX_WAIT = 3600.0  # seconds; system calls limit how long a wait may be
_MAX_BATCH_MS = 60_000  # milliseconds; a longer difference is not the duration of a batch


@dataclass
class EventTimePace:
    """Event time as a function of the clock: it was `time` at clock time `at`, and advances with the clock."""

    time: int
    at: int

    def reached(self, now: int) -> int:
        return self.time + max(now - self.at, 0)


@dataclass
class WatchedQuery:
    """A query, its pace once it is known, and when its next tick is due; None is never."""

    running: TickTarget
    pace: EventTimePace | None = None
    due: int | None = None

    def update(self, now: int) -> None:
        """Update pace and due time after a batch."""
        progress = self.running.progress
        deadline = progress.deadline
        if progress.time is not None and (self.pace is None or progress.time > self.pace.time):
            self.pace = EventTimePace(progress.time, self._batch_began(now))
        if deadline is None:
            self.due = None
            return
        if self.pace is None:  # state of an earlier run without a stored pace: assume that event time is the clock's
            self.pace = EventTimePace(min(deadline, now), now)
        self.due = self.pace.at + max(deadline - self.pace.time, 0)
        self._store_pace(self.pace)

    def _batch_began(self, now: int) -> int:
        """When the batch began; `now` if the clock is a manual one that differs from the system clock."""
        read = self.running.read_at
        return read if read is not None and 0 <= now - read < _MAX_BATCH_MS else now

    def _store_pace(self, pace: EventTimePace) -> None:
        with suppress(OSError):
            _pace_file(self.running).write_text(json.dumps(vars(pace)))

    def restore_pace(self) -> None:
        """Restore the pace of the previous run."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads(_pace_file(self.running).read_text())
            stored = EventTimePace(int(document["time"]), int(document["at"]))
            if self.pace is None or stored.time > self.pace.time:
                self.pace = stored


def is_timed(query: Query) -> bool:
    """Whether the query may have deadlines."""
    return any(node.traits.timed for node in walk(query.sink))


def _pace_file(running: TickTarget) -> Path:
    return running.folder / "time.json"


class Ticker:
    """Watches queries in its own thread. After a manual clock was moved, call `wake`."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._watched: dict[str, WatchedQuery] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="headrace-ticks", daemon=True)
        self._thread.start()

    def add(self, running: TickTarget) -> None:
        """A query has started. One that resumes gets a tick that moves no time, so that it reports its deadline."""
        if running.resumed and is_timed(running.query) and running.ticks in running.topics:
            with self._changed:
                self._watched.setdefault(running.query.id, WatchedQuery(running)).restore_pace()
            self._append(running, 0)

    def on_batch(self, running: TickTarget) -> None:
        """A batch is done: update when the query's next tick is due."""
        with self._changed:
            watched = self._watched.setdefault(running.query.id, WatchedQuery(running))
            watched.running = running
            watched.update(self._clock.now())
            self._changed.notify()

    def remove(self, query: str) -> None:
        with self._changed:
            self._watched.pop(query, None)

    def wake(self) -> None:
        """Notify the ticker that the clock was moved."""
        with self._changed:
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        while (due := self._wait_for_due()) is not None:
            for watched in due:
                self._tick(watched)

    def _wait_for_due(self) -> list[WatchedQuery] | None:
        """Wait for queries that are due; None when the ticker is closed."""
        with self._changed:
            while not self._closed:
                now = self._clock.now()
                times = [w.due for w in self._watched.values() if w.due is not None]
                if any(due <= now for due in times):
                    return [w for w in self._watched.values() if w.due is not None and w.due <= now]
                wait = min((due - now for due in times), default=None)
                self._changed.wait(_MAX_WAIT if wait is None else min(max(wait, 1) / 1000, _MAX_WAIT))
        return None

    def _tick(self, watched: WatchedQuery) -> None:
        try:
            if not watched.running.lag():
                self._append(watched.running, self._advance(watched))
                return
        except HeadraceError as error:  # a full disk or a deleted topic: the query itself will report it
            _logger.warning("could not write a tick for query %s: %s", watched.running.query.id, error)
            with self._changed:
                watched.due = watched.due or self._clock.now()
        with self._changed:
            self._changed.wait(_BUSY_WAIT)  # by the system clock: a manual clock may stand still

    def _advance(self, watched: WatchedQuery) -> int:
        """Current event time; stored before the tick is sent, since `on_batch` may be called for its batch at once."""
        with self._changed:
            now = self._clock.now()
            assert watched.pace is not None
            watched.pace, watched.due = EventTimePace(watched.pace.reached(now), now), None
            return watched.pace.time

    def _append(self, running: TickTarget, time: int) -> None:
        self._log.append([Append(running.ticks, from_records([Record(b"", occurred_at=time)]))])
