"""The order of statements: a lock under which one statement at a time changes the catalog.

A wait of more than a second is reported with the statement that is waited for, and no wait is endless: after a minute
the waiting statement is refused, without effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.long_waits import REPORT_SECONDS
from headrace.watched_lock import TIMEOUT_SECONDS, WatchedLock

_SHOWN = 80  # characters of a statement


class StatementOrder:
    """Re-entrant: a deployment applies statements of its own."""

    def __init__(self, report_after: float = REPORT_SECONDS, timeout: float = TIMEOUT_SECONDS) -> None:
        self._lock = WatchedLock("order of statements", report_after=report_after, timeout=timeout)

    @contextmanager
    def turn(self, what: str) -> Iterator[None]:
        """Wait for the statements before this one; `what` describes it."""
        self._lock.take(" ".join(what.split())[:_SHOWN])
        try:
            yield
        finally:
            self._lock.give()
