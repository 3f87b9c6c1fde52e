"""Queries are looked after: what is to run is started, what fails is tried again, what has nothing to do leaves Spark.

A query that fails for a reason that may pass is started again after a pause that grows; others wait for a person, and
none of them harms another. One that has had nothing to do for a while leaves Spark until it has.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from headrace.control.parking import Idleness, Parked
from headrace.control.supervisor import Supervisor
from headrace.control.ticks import is_timed
from headrace.errors import HeadraceError, Retry

_PAUSE = 0.2  # seconds between two looks at the queries
_LONGEST = 60.0  # seconds until a query that has failed is started again
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setback:
    """A query has failed, so often in a row; it is started again at a time by `time.monotonic`, or never."""

    failure: HeadraceError
    times: int
    again_at: float | None


class Care:
    """For the queries of a supervisor, in a thread of its own from `begin` on. It looks while it holds `turn`."""

    def __init__(self, supervisor: Supervisor, idleness: Idleness, turn: AbstractContextManager[object]) -> None:
        self.setbacks: dict[str, Setback] = {}
        self.parked: dict[str, Parked] = {}
        """Queries that are not in Spark, since they have nothing to do."""
        self._supervisor = supervisor
        self._idleness = idleness
        self._turn = turn
        self._thread = threading.Thread(target=self._tend, name="headrace-node", daemon=True)

    def begin(self) -> None:
        if self._idleness.after:
            for name, enlisted in self._supervisor.queries.items():
                if not is_timed(enlisted.query):
                    self._park(name)
        self._thread.start()

    def _tend(self) -> None:
        while not self._supervisor.stopping.wait(_PAUSE):
            try:
                with self._turn:
                    self.look()
            except Exception as error:  # a log that does not answer, say: the next look may be better
                _logger.warning("queries were not looked at: %s", error, exc_info=not isinstance(error, HeadraceError))

    def look(self) -> None:
        """Note what has failed, let go what has nothing to do, and start what is to run."""
        for name, failure in self._supervisor.failures():
            self._set_back(name, failure)
        for name, running in list(self._supervisor.running.items()):
            if self._idleness.may_leave(running):
                self._supervisor.halt(name)
                self._park(name)
        if self._supervisor.isolation.is_worn:
            _logger.info("Spark has started many queries, and begins anew")
            self._supervisor.renew()
        for name in self._supervisor.queries:
            if self._is_due(name):
                if not self._supervisor.may_start:
                    return
                self._start(name)

    def _park(self, query: str) -> None:
        """Until it has something to do. If it cannot be looked at, `start` will say why."""
        with suppress(HeadraceError):
            self.parked[query] = Parked(self._supervisor.prepared(query))

    def _is_due(self, query: str) -> bool:
        """Whether it is to be started now."""
        if query in self._supervisor.running or self._supervisor.queries[query].paused:
            return False
        if (parked := self.parked.get(query)) is not None and parked.is_done:
            return False
        setback = self.setbacks.get(query)
        return setback is None or (setback.again_at is not None and setback.again_at <= time.monotonic())

    def _start(self, query: str) -> None:
        self.parked.pop(query, None)
        try:
            self._supervisor.start(query)
        except HeadraceError as error:
            self._set_back(query, error)

    def _set_back(self, query: str, failure: HeadraceError) -> None:
        before, running = self.setbacks.get(query), self._supervisor.running.get(query)
        times = 1 if before is None or (running is not None and running.progress.batches) else before.times + 1
        again_at = time.monotonic() + min(2.0 ** (times - 1), _LONGEST) if isinstance(failure, Retry) else None
        self.setbacks[query] = Setback(failure, times, again_at)
        _logger.warning("query %s has failed, %s: %s", query, "to be tried again" if again_at else "for good", failure)
        self._supervisor.halt(query)

    def restart(self, query: str) -> None:
        """Stop a query; the next look starts it again from its checkpoint, unless it is paused."""
        self.forget(query)
        self._supervisor.halt(query)

    def forget(self, query: str) -> None:
        """Why it does not run."""
        self.parked.pop(query, None)
        self.setbacks.pop(query, None)

    def park_after(self, seconds: float) -> None:
        self._idleness.after = seconds

    def end(self) -> None:
        """Look no more; what runs goes on."""
        self._supervisor.stopping.set()
        self._thread.join()
