"""Rising trends are found, and fluctuations are not mistaken for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.samples import Sample
from tests.soak.trend import LIMITS, trends

STILL = Sample(0, 200, 900, 300, 150, 400)


def seen(change: Callable[[Sample, float], Sample], minutes: int = 60) -> list[str]:
    """Names of what is said to rise, of a sample every ten seconds."""
    samples = [replace(change(STILL, at / 60), at=at) for at in range(0, minutes * 60, 10)]
    return [trend.name for trend in trends(samples) if not trend.is_flat]


@pytest.mark.parametrize("name", LIMITS)
def test_a_leak_is_found(name: str) -> None:
    leak = 0.2 * getattr(STILL, name)
    assert seen(lambda still, minute: replace(still, **{name: getattr(still, name) + leak * minute / 30})) == [name]


def test_a_leak_of_half_a_megabyte_a_minute_is_found_in_an_hour() -> None:
    assert seen(lambda still, minute: replace(still, server_mb=200 + 0.5 * minute)) == ["server_mb"]


def test_growth_that_stops_is_flat() -> None:
    assert not seen(lambda still, minute: replace(still, spark_mb=900 + 20 * min(minute, 25), files=150 + minute // 25))


def test_single_peaks_are_flat() -> None:
    assert not seen(lambda still, minute: replace(still, files=1_100 if minute in (4, 4.5) else 150), minutes=5)


def test_oscillation_is_flat() -> None:
    assert not seen(lambda still, minute: replace(still, server_mb=200 + 8 * (round(6 * minute) % 7), threads=400))
