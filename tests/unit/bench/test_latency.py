"""Percentiles by nearest rank, and open-loop sending with a manual clock."""

from __future__ import annotations

import pytest
from bench.harness.latency import SECOND, Schedule, curve, millis_since, percentile, percentiles, send_on
from hypothesis import given
from hypothesis import strategies as st


class ManualTimer:
    """Time moves only when someone waits or says so."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        return self.time

    def wait_until(self, at: int) -> None:
        self.time = max(self.time, at)


@pytest.mark.parametrize(
    ("count", "quantile", "expected"),
    [
        (1, 0.5, 1),
        (2, 0.5, 1),
        (3, 0.5, 2),
        (10, 0.9, 9),
        (100, 0.99, 99),
        (1000, 0.999, 999),
        (100, 1.0, 100),
        (5, 0, 1),
    ],
)
def test_percentile_is_the_nearest_rank(count: int, quantile: float, expected: int) -> None:
    assert percentile(list(range(1, count + 1)), quantile) == expected


def test_no_values_have_no_percentiles() -> None:
    assert percentiles([]) == {}
    assert curve([]) == []
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_is_a_value_that_covers_its_share(values: list[float], quantile: float) -> None:
    found = percentile(sorted(values), quantile)
    assert found in values
    assert sum(value <= found for value in values) >= quantile * len(values) - 1e-6


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_and_curve_rise(values: list[float]) -> None:
    named = percentiles(values)
    assert list(named.values()) == sorted(named.values())
    assert named["max_ms"] == max(values)
    drawn = [value for _, value in curve(values)]
    assert drawn == sorted(drawn)


def test_a_schedule_has_even_intervals_without_drift() -> None:
    times = list(Schedule(start=7, rate=3, count=3001))
    assert times[:2] == [7, 7 + SECOND // 3]
    assert times[3000] == 7 + 1000 * SECOND


def test_each_record_is_sent_at_its_intended_time() -> None:
    timer, sent = ManualTimer(), []
    send_on(Schedule(0, 1000, 3), lambda intended: sent.append((intended, timer.now())), timer)
    assert sent == [(0, 0), (1_000_000, 1_000_000), (2_000_000, 2_000_000)]


def test_a_stall_counts_for_every_record_it_delays() -> None:
    """A closed loop would see one slow record; here the four that were due meanwhile are late as well."""
    timer, latencies = ManualTimer(), []

    def send(intended: int) -> None:
        if intended == 0:
            timer.time += 5_000_000  # the first record stalls for 5 ms
        latencies.append(millis_since(intended, timer.now()))

    send_on(Schedule(0, 1000, 7), send, timer)
    assert latencies == [5, 4, 3, 2, 1, 0, 0]


def test_the_warm_up_ends_at_an_intended_time() -> None:
    schedule = Schedule(start=100, rate=10, count=30)
    assert sum(intended >= schedule.cut(1.0) for intended in schedule) == 20
