"""Time for queries whose input is silent: when a deadline has come, a tick is appended to the query's ticks.

While nothing arrives, event time goes on at the pace of the clock: a deadline that lies 10 s after the latest record
comes 10 s after that record was read. So a stream of last week's records closes its windows as it would have then, and
not all at once because the clock on the wall is far ahead.

A tick is a record like others: ordered, journalled, replayed. A query that is not waiting for anything costs nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from headrace.clock import Clock
from headrace.contracts import Append
from headrace.engine.query import RunningQuery, ticks_topic
from headrace.log.embedded import EmbeddedLog
from headrace.log.rows import from_records
from headrace.record import Record


@dataclass
class Waiting:
    """A query that has a deadline: event time was `time` when the clock said `at`."""

    running: RunningQuery
    deadline: int
    time: int
    at: int

    @property
    def due(self) -> int:
        """When the clock will say that it is time."""
        return self.at + max(self.deadline - self.time, 0)


class Ticker:
    def __init__(self, log: EmbeddedLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._waiting: dict[str, Waiting] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="headrace-ticks", daemon=True)
        self._thread.start()

    def watch(self, running: RunningQuery) -> None:
        """A batch is done: note when the query must be woken."""
        progress = running.progress
        with self._changed:
            self._waiting.pop(running.query.id, None)
            if progress.deadline is not None and progress.time is not None:
                found = Waiting(running, progress.deadline, progress.time, self._clock.now())
                self._waiting[running.query.id] = found
            self._changed.notify()

    def forget(self, query: str) -> None:
        with self._changed:
            self._waiting.pop(query, None)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now = self._clock.now()
                for waiting in [w for w in self._waiting.values() if w.due <= now]:
                    self._tick(waiting, now)
                nearest = min((w.due for w in self._waiting.values()), default=None)
                self._changed.wait(None if nearest is None else max(nearest - now, 1) / 1000)

    def _tick(self, waiting: Waiting, now: int) -> None:
        """Only if nothing is under way: a record that is in the log already must be seen before its time is over."""
        running = waiting.running
        if self._log.head(running.topics) > running.position:
            waiting.at = now - max(waiting.deadline - waiting.time, 0) + 50
            return
        del self._waiting[running.query.id]
        time = waiting.time + now - waiting.at
        rows = from_records([Record(b"", occurred_at=time)])
        self._log.append([Append(ticks_topic(running.query), rows)])
