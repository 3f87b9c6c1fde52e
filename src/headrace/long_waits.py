"""Waits of more than a second for a lock or a queue: logged with the waiter and the holder, counted, shown by `status`.

One registry for the process, as for its log file: locks of all packages report to it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

_logger = logging.getLogger(__name__)
REPORT_SECONDS = 1.0
"""A longer wait is reported."""
_LOG_SECONDS = 1.0  # between two log lines about the same lock or queue


@dataclass(frozen=True)
class WaitStatistics:
    """The long waits for one lock or queue: those that ended, and those in progress."""

    count: int = 0
    max_seconds: float = 0.0


@dataclass(frozen=True)
class LongWait:
    """A wait in progress."""

    what: str
    waiter: str
    holder: str
    began_at: float

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began_at


class LongWaits:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statistics: dict[str, WaitStatistics] = {}
        self._current: dict[int, LongWait] = {}
        self._logged_at: dict[str, float] = {}

    @contextmanager
    def waiting(self, what: str, waiter: str, holder: str, *, since: float = REPORT_SECONDS) -> Iterator[None]:
        """The rest of a wait for `what` that has taken `since` seconds already."""
        wait = LongWait(what, waiter, holder, time.monotonic() - since)
        with self._lock:
            self._current[id(wait)] = wait
            before = self._statistics.get(what, WaitStatistics())
            self._statistics[what] = replace(before, count=before.count + 1)
            is_logged = time.monotonic() - self._logged_at.get(what, -_LOG_SECONDS) >= _LOG_SECONDS
            if is_logged:
                self._logged_at[what] = time.monotonic()
        if is_logged:
            _logger.warning('%s: "%s" waits for "%s"', what, waiter, holder or "nobody known")
        try:
            yield
        finally:
            self._ended(wait, is_logged=is_logged)

    def _ended(self, wait: LongWait, *, is_logged: bool) -> None:
        seconds = wait.seconds
        with self._lock:
            del self._current[id(wait)]
            before = self._statistics[wait.what]
            self._statistics[wait.what] = replace(before, max_seconds=max(before.max_seconds, seconds))
        if is_logged:
            _logger.warning('%s: "%s" waited for %.1f s', wait.what, wait.waiter, seconds)

    def current(self) -> list[LongWait]:
        """The waits in progress, the longest first."""
        with self._lock:
            return sorted(self._current.values(), key=lambda wait: wait.began_at)

    def statistics(self) -> Mapping[str, WaitStatistics]:
        """By lock or queue; waits in progress count with their duration so far."""
        with self._lock:
            statistics = dict(self._statistics)
            for wait in self._current.values():
                known = statistics[wait.what]
                statistics[wait.what] = replace(known, max_seconds=max(known.max_seconds, wait.seconds))
        return statistics


LONG_WAITS = LongWaits()
