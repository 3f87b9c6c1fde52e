"""Clocks."""

from __future__ import annotations

import time
from datetime import timedelta

from headrace.clock import ManualClock, SystemClock, millis


def test_the_systems_clock_counts_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= SystemClock().now() <= time.time_ns() // 1_000_000


def test_a_manual_clock_moves_only_when_advanced() -> None:
    clock = ManualClock(5)
    assert clock.now() == clock.now() == 5
    assert clock.advance(timedelta(seconds=1)) == clock.now() == 1005
    clock.set(7)
    assert clock.now() == 7


def test_millis_rounds_down() -> None:
    assert [millis(timedelta(microseconds=us)) for us in (0, 999, 1000, 1999)] == [0, 0, 1, 1]
