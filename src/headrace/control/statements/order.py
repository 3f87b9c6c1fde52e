"""The order of statements: a lock under which one statement at a time changes the catalog.

A wait of more than a second is reported with the statement that is waited for, and no wait is endless: after a minute
the waiting statement is refused, without effect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import ServerBusy
from headrace.long_waits import LONG_WAITS, REPORT_SECONDS

_TIMEOUT_SECONDS = 60.0
_SHOWN = 80  # characters of a statement


class StatementOrder:
    """Re-entrant: a deployment applies statements of its own."""

    def __init__(self, report_after: float = REPORT_SECONDS, timeout: float = _TIMEOUT_SECONDS) -> None:
        self._report_after = report_after
        self._timeout = timeout
        self._lock = threading.RLock()
        self._holder = ""

    @contextmanager
    def turn(self, what: str) -> Iterator[None]:
        """Wait for the statements before this one; `what` describes it."""
        what = " ".join(what.split())[:_SHOWN]
        if not self._lock.acquire(timeout=self._report_after):
            self._wait_longer(what)
        before, self._holder = self._holder, what
        try:
            yield
        finally:
            self._holder = before
            self._lock.release()

    def _wait_longer(self, what: str) -> None:
        with LONG_WAITS.waiting("order of statements", what, self._holder, since=self._report_after):
            acquired = self._lock.acquire(timeout=max(self._timeout - self._report_after, 0))
        if not acquired:
            raise ServerBusy(
                f'another statement is still being applied after {self._timeout:g} s: "{self._holder}"',
                where=what,
                fix="send the statement again later; if this remains, see `headrace logs`",
            )
