"""Reconciles running queries with the catalog: starts queries, restarts failed ones, and suspends idle ones.

A query with a transient failure (`Retry`) is restarted with exponential back-off; other failures wait for a person.
A failed query does not affect the others. A query that has been idle for a while leaves Spark until it has input.
A pass holds no lock: statements may create, pause and drop queries meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from headrace.control.queries.idle import IdleTracker, SuspendedQuery
from headrace.control.queries.restart_policy import SERVER_POLICY, FailureTracker, QueryFailure
from headrace.control.queries.stopping import after_stop
from headrace.control.queries.supervisor import Supervisor
from headrace.control.queries.ticks import is_timed
from headrace.errors import HeadraceError

_INTERVAL = 0.2  # seconds between two passes
OnFailure = Callable[[str, QueryFailure, int | None], None]
"""Called with a query, its failure, and the number of the batch that it did not finish."""
_logger = logging.getLogger(__name__)


class Reconciler:
    """Reconciles the queries of a supervisor in its own thread, from `start` on."""

    def __init__(
        self,
        supervisor: Supervisor,
        idle: IdleTracker,
        now: Callable[[], float] = time.monotonic,
        on_failure: OnFailure = lambda query, failure, batch: None,
    ) -> None:
        self._on_failure = on_failure
        self._failures = FailureTracker(SERVER_POLICY, now)
        self.suspended: dict[str, SuspendedQuery] = {}
        """Suspended queries: idle, and not on Spark."""
        self._supervisor = supervisor
        self._idle = idle
        self._thread = threading.Thread(target=self._run, name="headrace-node", daemon=True)

    @property
    def failures(self) -> dict[str, QueryFailure]:
        """Queries that do not run because they failed."""
        return self._failures.failures

    def start(self) -> None:
        if self._idle.suspend_after:
            for name, registered in self._supervisor.queries.items():
                if not is_timed(registered.query):
                    self._suspend(name)
        self._thread.start()

    def _run(self) -> None:
        while not self._supervisor.stopping.wait(_INTERVAL):
            try:
                self.reconcile()
            except Exception as error:  # for example a log that does not respond: the next pass may succeed
                _logger.warning("queries were not reconciled: %s", error, exc_info=not isinstance(error, HeadraceError))

    def reconcile(self) -> None:
        """One pass: record failures, suspend idle queries, and start queries that are due."""
        for name, failure in self._supervisor.failures():
            self._record_failure(name, failure)
        for name, running in list(self._supervisor.running.items()):
            if self._idle.should_suspend(running):
                _logger.info("query %s is idle: suspended until it has input", name)
                after_stop(self._supervisor.stop(name), partial(self._suspend, name))
        if self._supervisor.isolation.needs_restart:
            _logger.info("Spark has started many queries and is restarted")
            self._supervisor.restart_workers()
        # Few start at once: those that fail again and again are last, so that they do not keep others from it.
        for name in sorted(self._supervisor.queries, key=self._failures.count):
            if self._is_due(name):
                if not self._supervisor.can_start:
                    return
                self._start_query(name)

    def _suspend(self, query: str) -> None:
        """Suspend a query until it has input. If that fails, `start` will report the reason."""
        with suppress(HeadraceError, KeyError):
            registered = self._supervisor.queries[query]
            suspended = SuspendedQuery(self._supervisor.prepare(query))
            if self._supervisor.queries.get(query) is registered:  # else a statement has replaced or dropped it
                self.suspended[query] = suspended

    def _is_due(self, query: str) -> bool:
        """Whether the query is to be started now."""
        registered = self._supervisor.queries.get(query)
        if registered is None or registered.paused:
            return False
        if query in self._supervisor.running or self._supervisor.is_stopping(query):
            return False
        if (suspended := self.suspended.get(query)) is not None and not suspended.has_input:
            return False
        return not self._failures.blocks(query)

    def _start_query(self, query: str) -> None:
        self.suspended.pop(query, None)
        try:
            self._supervisor.start(query)
        except HeadraceError as error:
            self._record_failure(query, error)

    def _record_failure(self, query: str, failure: HeadraceError) -> None:
        made_progress = self._supervisor.made_progress(query, failure)
        recorded = self._failures.record(query, failure, made_progress=made_progress)
        following = "waits for RESUME" if recorded.restart_at is None else "restarts"
        self._on_failure(query, recorded, self._supervisor.unfinished_batch(query))
        _logger.warning("query %s failed, %s: %s", query, following, failure)
        self._supervisor.stop(query)

    def restart(self, query: str) -> None:
        """Stop a query; the next pass restarts it from its checkpoint, unless it is paused."""
        self.forget(query)
        self._supervisor.stop(query)

    def forget(self, query: str) -> None:
        """Forget why the query is not running: its failures, and that it was suspended."""
        self.suspended.pop(query, None)
        self._failures.forget(query)

    def set_suspend_after(self, seconds: float) -> None:
        self._idle.suspend_after = seconds

    def stop(self) -> None:
        """Stop reconciling; running queries keep running."""
        self._supervisor.stopping.set()
        self._thread.join()
