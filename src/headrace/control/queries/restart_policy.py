"""Decides whether and when a failed query restarts: one policy for servers, one for scripts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.backoff import Backoff
from headrace.engine.io.failing_batch import BATCH_ATTEMPTS, RECORD_ATTEMPTS
from headrace.errors import (
    HeadraceError,
    OutOfMemory,
    ProcessLost,
    PythonWorkerLost,
    Retry,
    TaskFailed,
    UnexpectedFailure,
)

_AT_ONCE = Backoff(0.0, 0.0)


@dataclass(frozen=True)
class RestartRule:
    """Restarts after one kind of error: at most `limit` in a row (None is no limit), each after a pause."""

    error: type[HeadraceError]
    limit: int | None = None
    backoff: Backoff = _AT_ONCE


@dataclass(frozen=True)
class RestartPolicy:
    """The first rule that covers an error applies; a query with any other error is not restarted."""

    rules: tuple[RestartRule, ...]

    def pause(self, error: HeadraceError, failures: int) -> float | None:
        """Seconds until the restart after the nth failure in a row; None if the query is not restarted."""
        rule = next((rule for rule in self.rules if isinstance(error, rule.error)), None)
        if rule is None or (rule.limit is not None and failures > rule.limit):
            return None
        return rule.backoff.pause(failures)


_GROWING = Backoff(1.0, 60.0)
SERVER_POLICY = RestartPolicy((RestartRule(Retry, backoff=_GROWING),))
"""A server retries for ever what is transient or unknown. What a record causes does not last: `engine.io.failing_batch`
finds that record. All other errors wait for a person."""


def script_policy(*, isolates_failures: bool) -> RestartPolicy:
    """A script restarts queries that lost a process or failed unexpectedly, a few times, and fails otherwise.

    Out of memory counts only with a process per query: in a shared process the others use the same memory.
    """
    return RestartPolicy(
        (
            RestartRule(OutOfMemory, 1 if isolates_failures else 0),
            RestartRule(PythonWorkerLost, BATCH_ATTEMPTS + RECORD_ATTEMPTS),
            RestartRule(TaskFailed, BATCH_ATTEMPTS + RECORD_ATTEMPTS),
            RestartRule(ProcessLost, 5),
            RestartRule(UnexpectedFailure, 2),
        )
    )


@dataclass(frozen=True)
class QueryFailure:
    """A query's last error, the number of failures in a row, and the restart time (`time.monotonic`; None is never)."""

    error: HeadraceError
    count: int
    restart_at: float | None


@dataclass
class FailureTracker:
    """Tracks the failures in a row of each query, and when the policy restarts it."""

    policy: RestartPolicy
    now: Callable[[], float] = time.monotonic
    failures: dict[str, QueryFailure] = field(default_factory=dict)

    def record(self, query: str, error: HeadraceError, *, made_progress: bool) -> QueryFailure:
        """Record a failure; `made_progress` says that the query has finished batches since its last start, or
        that a failing batch has become smaller."""
        before = self.failures.get(query)
        count = 1 if before is None or made_progress else before.count + 1
        pause = self.policy.pause(error, count)
        self.failures[query] = failure = QueryFailure(error, count, None if pause is None else self.now() + pause)
        return failure

    def count(self, query: str) -> int:
        """Failures in a row."""
        failure = self.failures.get(query)
        return 0 if failure is None else failure.count

    def blocks(self, query: str) -> bool:
        """Whether the query must not be started now."""
        failure = self.failures.get(query)
        return failure is not None and (failure.restart_at is None or failure.restart_at > self.now())

    def forget(self, query: str) -> None:
        self.failures.pop(query, None)
