"""Rates and estimates of catching up, with a manual clock."""

from __future__ import annotations

from headrace.control.queries.metrics import MetricsWindow


def test_a_rate_covers_the_last_seconds() -> None:
    window = MetricsWindow()
    rates = [window.rate(at, records) for at, records in ((0, 0), (1, 100), (2, 200), (20, 200), (21, 1_200))]
    assert rates == [0.0, 100.0, 100.0, 0.0, 1_000.0]


def test_the_remaining_catch_up_time_is_estimated() -> None:
    window = MetricsWindow()
    assert window.catching_up(1_000, 0.0) == (None, None)  # nobody knows yet how fast it is
    assert window.catching_up(800, 100.0) == (0.19999999999999996, 8.0)
    assert window.catching_up(500, 100.0) == (0.5, 5.0)
    assert window.catching_up(100, 100.0) == (None, None)  # a moment's work
    assert window.catching_up(0, 100.0) == (None, None)
    assert window.catching_up(400, 100.0) == (0.0, 4.0)  # what was before is over
