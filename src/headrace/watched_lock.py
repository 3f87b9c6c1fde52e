"""A lock whose long waits are reported with the holder, and none of which is endless."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from headrace.errors import ServerBusy
from headrace.long_waits import LONG_WAITS, REPORT_SECONDS

TIMEOUT_SECONDS = 60.0
"""After this time a waiter gives up."""


class WatchedLock:
    """Use it with `with`. It is re-entrant.

    A wait of more than a second is reported (see `long_waits`). After a minute the waiter gets ServerBusy: something
    holds the lock that should not, and one more thread that waits for ever would help nobody.
    """

    def __init__(self, name: str, *, report_after: float = REPORT_SECONDS, timeout: float = TIMEOUT_SECONDS) -> None:
        self.name = name
        self._report_after, self._timeout = report_after, timeout
        self._lock = threading.RLock()
        self._holders: list[str] = []

    @property
    def holder(self) -> str:
        """What holds the lock: what it said, or the name of its thread; empty if it is free."""
        holders = self._holders
        return holders[-1] if holders else ""

    def take(self, waiter: str = "") -> None:
        """Wait for the lock; `waiter` describes what for."""
        waiter = waiter or threading.current_thread().name
        if not self._lock.acquire(timeout=self._report_after):
            self._wait_longer(waiter)
        self._holders.append(waiter)

    def give(self) -> None:
        self._holders.pop()
        self._lock.release()

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.give()

    def _wait_longer(self, waiter: str) -> None:
        with LONG_WAITS.waiting(self.name, waiter, self.holder, since=self._report_after):
            acquired = self._lock.acquire(timeout=max(self._timeout - self._report_after, 0))
        if not acquired:
            raise ServerBusy(
                f"{self.name}: what came before is not done after {self._timeout:g} s",
                where=waiter,
                fix="send the request again later; if this remains, see `headrace logs`",
            )
