"""Time for queries whose input is silent: when a deadline has come, a tick is appended to the query's ticks.

While nothing arrives, event time goes on at the pace of the clock: a deadline that lies 10 s after the latest record
comes 10 s after the batch with that record began. So a stream of last week's records closes its windows as it would
have then, and not all at once because the clock on the wall is far ahead.

A tick is a record like others: ordered, journalled, replayed. It is only given to a query that has read all there is,
since a record that lies in the log must be seen before its time is over. A query that is not waiting for anything
costs nothing. Where event time stood is kept beside the checkpoint, so that a deadline also comes after a restart; the
time that a query was not running counts.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.clock import Clock
from headrace.contracts import Append, Log
from headrace.engine.progress import Progress
from headrace.errors import HeadraceError
from headrace.log.rows import from_records
from headrace.plan.nodes import Emit, Final, Node, Operate, Query, StreamJoin, walk
from headrace.record import Record

_logger = logging.getLogger(__name__)
_AGAIN = 0.05  # seconds until a query that was busy is looked at again
_LONGEST = 3600.0  # seconds that a wait lasts; the system's calls know no longer ones than years
_BATCH = 60_000  # milliseconds; what is further off is not how long a batch took
_TIMED: tuple[type[Node], ...] = (Final, Emit, StreamJoin, Operate)
"""What can have a deadline."""


class Ticked(Protocol):
    """What a ticker must know of a query at work."""

    query: Query
    progress: Progress
    ticks: str
    """The topic of its ticks."""
    topics: tuple[str, ...]
    """All that it reads, its ticks among them if it needs any."""
    folder: Path
    goes_on: bool
    read_at: int | None
    """When the last batch began, by the machine's clock."""

    def waiting(self) -> int: ...


@dataclass
class Pace:
    """How far event time is: it was `time` when the clock said `at`, and goes on with the clock."""

    time: int
    at: int

    def reached(self, now: int) -> int:
        return self.time + max(now - self.at, 0)


@dataclass
class Watched:
    """A query, its pace once it is known, and when it must be looked at; None is never."""

    running: Ticked
    pace: Pace | None = None
    due: int | None = None

    def note(self, now: int) -> None:
        """A batch is done."""
        progress = self.running.progress
        deadline = progress.deadline
        if progress.time is not None and (self.pace is None or progress.time > self.pace.time):
            self.pace = Pace(progress.time, self._read_at(now))
        if deadline is None:
            self.due = None
            return
        if self.pace is None:  # state from before, of which no more is known: event time is what most records have
            self.pace = Pace(min(deadline, now), now)
        self.due = self.pace.at + max(deadline - self.pace.time, 0)
        self._keep(self.pace)

    def _read_at(self, now: int) -> int:
        """When the batch began, as far as a clock that may be moved by hand goes with the machine's."""
        read = self.running.read_at
        return read if read is not None and 0 <= now - read < _BATCH else now

    def _keep(self, pace: Pace) -> None:
        with suppress(OSError):
            _file(self.running).write_text(json.dumps(vars(pace)))

    def recall(self) -> None:
        """Take up the pace of the run before."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(_file(self.running).read_text())
            kept = Pace(int(found["time"]), int(found["at"]))
            if self.pace is None or kept.time > self.pace.time:
                self.pace = kept


def is_timed(query: Query) -> bool:
    """Whether it may wait for a moment in time."""
    return any(isinstance(node, _TIMED) for node in walk(query.sink))


def _file(running: Ticked) -> Path:
    return running.folder / "time.json"


class Ticker:
    """Watches queries, in a thread of its own. The clock may be moved by hand; `wake` then tells the ticker."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._watched: dict[str, Watched] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="headrace-ticks", daemon=True)
        self._thread.start()

    def begin(self, running: Ticked) -> None:
        """A query is started. One that goes on is asked, by a tick that moves no time, what it is waiting for."""
        if running.goes_on and is_timed(running.query) and running.ticks in running.topics:
            with self._changed:
                self._watched.setdefault(running.query.id, Watched(running)).recall()
            self._append(running, 0)

    def watch(self, running: Ticked) -> None:
        """A batch is done: note when the query must be woken."""
        with self._changed:
            watched = self._watched.setdefault(running.query.id, Watched(running))
            watched.running = running
            watched.note(self._clock.now())
            self._changed.notify()

    def forget(self, query: str) -> None:
        with self._changed:
            self._watched.pop(query, None)

    def wake(self) -> None:
        """The clock was moved."""
        with self._changed:
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            for watched in due:
                self._tick(watched)

    def _next(self) -> list[Watched] | None:
        """Wait for queries that are due; None at the end."""
        with self._changed:
            while not self._closed:
                now = self._clock.now()
                times = [w.due for w in self._watched.values() if w.due is not None]
                if any(due <= now for due in times):
                    return [w for w in self._watched.values() if w.due is not None and w.due <= now]
                left = min((due - now for due in times), default=None)
                self._changed.wait(_LONGEST if left is None else min(max(left, 1) / 1000, _LONGEST))
        return None

    def _tick(self, watched: Watched) -> None:
        try:
            if not watched.running.waiting():
                self._append(watched.running, self._reached(watched))
                return
        except HeadraceError as error:  # a full disk, or a topic that is gone: the query itself will say so
            _logger.warning("no tick for query %s: %s", watched.running.query.id, error)
            with self._changed:
                watched.due = watched.due or self._clock.now()
        with self._changed:
            self._changed.wait(_AGAIN)  # by the machine's clock: one that is moved by hand may stand still

    def _reached(self, watched: Watched) -> int:
        """How far event time is; noted before the tick is sent, since `watch` may be told of its batch at once."""
        with self._changed:
            now = self._clock.now()
            assert watched.pace is not None
            watched.pace, watched.due = Pace(watched.pace.reached(now), now), None
            return watched.pace.time

    def _append(self, running: Ticked, time: int) -> None:
        self._log.append([Append(running.ticks, from_records([Record(b"", occurred_at=time)]))])
