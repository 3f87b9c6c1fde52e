"""Reconciles running queries with the catalog: starts queries, restarts failed ones, and suspends idle ones.

A query with a transient failure (`Retry`) is restarted with exponential back-off; other failures wait for a person.
A failed query does not affect the others. A query that has been idle for a while leaves Spark until it has input.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from headrace.control.queries.idle import IdleTracker, SuspendedQuery
from headrace.control.queries.supervisor import Supervisor
from headrace.control.queries.ticks import is_timed
from headrace.errors import HeadraceError, Retry

_INTERVAL = 0.2  # seconds between two passes
_MAX_BACKOFF = 60.0  # seconds until a failed query is restarted
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueryFailure:
    """A query's failure, the number of failures in a row, and the restart time (`time.monotonic`; None is never)."""

    failure: HeadraceError
    times: int
    again_at: float | None


class Reconciler:
    """Reconciles the queries of a supervisor in its own thread, from `begin` on. Each pass holds the lock `turn`."""

    def __init__(self, supervisor: Supervisor, idleness: IdleTracker, turn: AbstractContextManager[object]) -> None:
        self.setbacks: dict[str, QueryFailure] = {}
        self.parked: dict[str, SuspendedQuery] = {}
        """Suspended queries: idle, and not on Spark."""
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
        while not self._supervisor.stopping.wait(_INTERVAL):
            try:
                with self._turn:
                    self.look()
            except Exception as error:  # for example a log that does not respond: the next pass may succeed
                _logger.warning("queries were not reconciled: %s", error, exc_info=not isinstance(error, HeadraceError))

    def look(self) -> None:
        """One pass: record failures, suspend idle queries, and start queries that are due."""
        for name, failure in self._supervisor.failures():
            self._set_back(name, failure)
        for name, running in list(self._supervisor.running.items()):
            if self._idleness.may_leave(running):
                self._supervisor.halt(name)
                self._park(name)
                _logger.info("query %s is idle: suspended until it has input", name)
        if self._supervisor.isolation.is_worn:
            _logger.info("Spark has started many queries and is restarted")
            self._supervisor.renew()
        for name in self._supervisor.queries:
            if self._is_due(name):
                if not self._supervisor.may_start:
                    return
                self._start(name)

    def _park(self, query: str) -> None:
        """Suspend a query until it has input. If that fails, `start` will report the reason."""
        with suppress(HeadraceError):
            self.parked[query] = SuspendedQuery(self._supervisor.prepared(query))

    def _is_due(self, query: str) -> bool:
        """Whether the query is to be started now."""
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
        again_at = time.monotonic() + min(2.0 ** (times - 1), _MAX_BACKOFF) if isinstance(failure, Retry) else None
        self.setbacks[query] = QueryFailure(failure, times, again_at)
        _logger.warning("query %s failed, %s: %s", query, "restarts" if again_at else "waits for RESUME", failure)
        self._supervisor.halt(query)

    def restart(self, query: str) -> None:
        """Stop a query; the next pass restarts it from its checkpoint, unless it is paused."""
        self.forget(query)
        self._supervisor.halt(query)

    def forget(self, query: str) -> None:
        """Forget why the query is not running: its failures, and that it was suspended."""
        self.parked.pop(query, None)
        self.setbacks.pop(query, None)

    def park_after(self, seconds: float) -> None:
        self._idleness.after = seconds

    def end(self) -> None:
        """Stop reconciling; running queries keep running."""
        self._supervisor.stopping.set()
        self._thread.join()
