from __future__ import annotations

import pytest

from headrace.serve.admission.completion_rate import CompletionRate


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def rate_of(clock: Clock, per_second: float, seconds: float) -> CompletionRate:
    rate = CompletionRate(clock)
    for _ in range(int(per_second * seconds)):
        clock.now += 1 / per_second
        rate.add()
    return rate


@pytest.mark.parametrize(("per_second", "waiting", "seconds"), [(10, 100, 10), (10, 20, 2), (100, 1000, 10)])
def test_the_time_is_that_of_the_work_that_waits(per_second: float, waiting: int, seconds: float) -> None:
    assert rate_of(Clock(), per_second, 30).seconds_for(waiting) == pytest.approx(seconds, rel=0.1)


def test_the_time_is_bounded() -> None:
    clock = Clock()
    rate = rate_of(clock, 1, 30)
    assert (rate.seconds_for(0), rate.seconds_for(1_000_000)) == (1, 60)
    clock.now += 3600  # nothing is completed any more
    assert rate.seconds_for(1) == 60


def test_a_class_that_has_just_become_busy_does_not_count_as_slow() -> None:
    clock = Clock()
    rate = CompletionRate(clock)
    clock.now += 3600
    rate.restart()
    assert rate.seconds_for(256) == 1


def test_a_rate_that_changes_counts_after_a_while() -> None:
    clock = Clock()
    rate = rate_of(clock, 100, 30)
    for _ in range(30):
        clock.now += 1
        rate.add()
    assert rate.seconds_for(10) == pytest.approx(10, rel=0.1)
