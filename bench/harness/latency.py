"""Latency without coordinated omission.

A closed loop that waits for a slow response sends nothing meanwhile, and so does not measure the records that would
have been delayed most. Here the times at which records *should* be sent are fixed beforehand (`Schedule`); a sender
that falls behind sends at once, and latency counts from the intended time, not from the actual one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

SECOND = 1_000_000_000

PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1.0}
# Points of the curve that is stored for each run: dense in the tail.
CURVE = (0.0, *(1 - 10 ** (-i / 8) for i in range(1, 33)), 1.0)


class Timer(Protocol):
    """Nanoseconds of a clock that all processes of the machine share."""

    def now(self) -> int: ...
    def wait_until(self, at: int) -> None: ...


class SystemTimer:
    """CLOCK_MONOTONIC, which is the same in every process of a machine."""

    def now(self) -> int:
        return time.monotonic_ns()

    def wait_until(self, at: int) -> None:
        while (left := at - time.monotonic_ns()) > 0:
            time.sleep(left / SECOND)


@dataclass(frozen=True)
class Schedule:
    """`count` intended times, evenly spaced at `rate` per second from `start` (nanoseconds) on."""

    start: int
    rate: float
    count: int

    def __iter__(self) -> Iterator[int]:
        return (self.start + round(i * SECOND / self.rate) for i in range(self.count))

    def cut(self, warmup_seconds: float) -> int:
        """The intended time at which the warm-up ends."""
        return self.start + round(warmup_seconds * SECOND)


def send_on(schedule: Schedule, send: Callable[[int], object], timer: Timer) -> None:
    """Call `send(intended time)` at each time of the schedule; late calls follow one another without a pause."""
    for intended in schedule:
        timer.wait_until(intended)
        send(intended)


def millis_since(intended: int, now: int) -> float:
    return (now - intended) / 1e6


def percentile(ordered: Sequence[float], quantile: float) -> float:
    """The smallest value that at least this share of all values does not exceed (nearest rank, no interpolation)."""
    if not ordered:
        raise ValueError("no values")
    # Without the small correction, a product such as 9.000000000000002 would give the next rank.
    rank = math.ceil(quantile * len(ordered) - 1e-9)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90, p99, p99.9 and max; empty without values."""
    ordered = sorted(values)
    return {name: percentile(ordered, quantile) for name, quantile in PERCENTILES.items()} if ordered else {}


def curve(values: Sequence[float]) -> list[tuple[float, float]]:
    """(quantile, value) pairs to draw, as far into the tail as the number of values allows."""
    ordered = sorted(values)
    quantiles = [q for q in CURVE if q == 1.0 or (1 - q) * len(ordered) >= 1]
    return [(q, percentile(ordered, q)) for q in quantiles] if ordered else []
