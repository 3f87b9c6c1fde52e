"""Suspends idle queries: those that have read all their input and have no pending deadline leave Spark.

A suspended query costs almost nothing: no process, no thread, only a periodic check of its topics' end offsets. It is
back on Spark a few seconds after new input arrives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from headrace.control.queries.ticks import is_timed
from headrace.control.workers.handle import QueryHandle
from headrace.engine.execution_mode import REALTIME
from headrace.engine.log_adapter import Position
from headrace.engine.query import PreparedQuery


@dataclass(frozen=True)
class SuspendedQuery:
    """A query that does not run on Spark at the moment."""

    prepared: PreparedQuery

    @property
    def has_input(self) -> bool:
        """Whether there are records that it has not read."""
        return bool(self.prepared.log_adapter.lag(self.prepared.topics, self._position))

    @cached_property
    def _position(self) -> Position | None:
        """Cached: it does not change while the query is suspended, and is read several times a second."""
        return self.prepared.checkpoint.position() or self.prepared.manifest.start


@dataclass
class IdleTracker:
    """Tracks how long each query has been idle; after `suspend_after` seconds it is suspended, with 0 never."""

    suspend_after: float
    now: Callable[[], float] = time.monotonic
    _since: dict[str, tuple[int, float]] = field(default_factory=dict)

    def should_suspend(self, running: QueryHandle) -> bool:
        """Whether to suspend the query. Call it periodically: a batch between two calls resets the idle time."""
        name, batches = running.query.id, running.progress.batches
        seen, since = self._since.setdefault(name, (batches, self.now()))
        if batches != seen or running.is_starting or _must_run(running):
            self._since[name] = (batches, self.now())
            return False
        return bool(self.suspend_after) and self.now() - since >= self.suspend_after and not running.lag()


def _must_run(running: QueryHandle) -> bool:
    """Whether the query must stay on Spark. Batches report its deadlines; before the first batch they are unknown."""
    if running.execution_mode == REALTIME or running.progress.deadline is not None:
        return True
    return is_timed(running.query) and not running.progress.batches
