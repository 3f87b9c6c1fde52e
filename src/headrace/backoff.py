"""Exponential back-off: how long to wait before the next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass

_MAX_DOUBLINGS = 60  # far above every limit, and far below an overflow


@dataclass(frozen=True)
class Backoff:
    """Pauses in seconds that double from `first` to `longest`; `jitter` is the share of a pause that is random."""

    first: float
    longest: float
    jitter: float = 0.0

    def pause(self, failures: int) -> float:
        """Seconds to wait after the nth failure in a row; the first is 1."""
        pause = min(self.first * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), self.longest)
        return pause * random.uniform(1.0 - self.jitter, 1.0) if self.jitter else pause
