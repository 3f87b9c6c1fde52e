"""How fast work is completed, for clients that are refused: when should they come back?"""

from __future__ import annotations

import time
from collections.abc import Callable

_WINDOW = 10.0  # seconds; the rate is that of the last one or two of them
_SHORTEST, _LONGEST = 1.0, 60.0  # seconds


class CompletionRate:
    """Counts completed work since a class of work became busy."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.restart()

    def restart(self) -> None:
        """Begin again: the class was idle, which says nothing about its rate."""
        self._began, self._count = self._now(), 0
        self._seconds_before, self._count_before = 0.0, 0

    def add(self) -> None:
        """Count one completed piece of work."""
        elapsed = self._now() - self._began
        if elapsed > _WINDOW:
            self._seconds_before, self._count_before = elapsed, self._count
            self._began, self._count = self._now(), 0
        self._count += 1

    def seconds_for(self, work: int) -> float:
        """The seconds that so many pieces of work will take, at least 1 and at most 60."""
        seconds = self._seconds_before + self._now() - self._began
        count = self._count_before + self._count
        return min(max(work * seconds / (count + 1), _SHORTEST), _LONGEST)
