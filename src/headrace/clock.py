"""Clocks: the time as a dependency, so that tests can set it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time in whole milliseconds since 1970-01-01 UTC."""

    def now(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, by: timedelta) -> int:
        """Move forward and return the new time."""
        self._now += millis(by)
        return self._now

    def set(self, now: int) -> None:
        """Jump to a time."""
        self._now = now


def millis(duration: timedelta) -> int:
    """A duration in whole milliseconds."""
    return duration // timedelta(milliseconds=1)
