"""Pauses between attempts."""

from __future__ import annotations

import pytest

from headrace.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    assert [Backoff(0.5, 3.0).pause(failures) for failures in (1, 2, 3, 4, 5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize("failures", [1_000, 10**9])
def test_the_pause_after_many_failures_is_the_longest(failures: int) -> None:
    assert Backoff(1.0, 60.0).pause(failures) == 60.0


def test_jitter_shortens_a_pause_by_at_most_its_share() -> None:
    pauses = [Backoff(8.0, 60.0, jitter=0.5).pause(1) for _ in range(200)]
    assert min(pauses) >= 4.0
    assert max(pauses) <= 8.0
    assert len(set(pauses)) > 1


def test_a_first_pause_of_zero_stays_zero() -> None:
    assert Backoff(0.0, 60.0).pause(7) == 0.0
