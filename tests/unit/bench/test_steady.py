"""Steady rates leave out the start of a side."""

from __future__ import annotations

import pytest
from bench import ROOT
from bench.harness.settings import load
from bench.harness.steady import METRIC, Outputs, steady_rate
from bench.tables import table


def outputs(*seen: tuple[float, int]) -> Outputs:
    found = Outputs()
    for seconds, records in seen:
        found.note(seconds, records)
    return found


@pytest.mark.parametrize("start", [0.0, 60.0])
def test_a_slow_start_does_not_change_the_rate(start: float) -> None:
    assert outputs((start + 1, 100), (start + 2, 300), (start + 3, 500)).metrics() == {METRIC: 200.0}


@pytest.mark.parametrize("share", [1, 10])
def test_a_side_that_reads_a_share_has_the_same_rate(share: int) -> None:
    assert steady_rate(4_000 // share, 8 / share) == {METRIC: 500.0}


def test_idle_time_after_the_last_output_does_not_count() -> None:
    assert outputs((1, 0), (2, 100), (3, 300), (4, 300), (60, 300)).metrics() == {METRIC: 200.0}


@pytest.mark.parametrize("found", [outputs(), outputs((1, 100))])
def test_less_than_two_outputs_have_no_rate(found: Outputs) -> None:
    assert found.metrics() == {}


def test_a_peer_that_reads_a_share_is_compared_by_steady_rates() -> None:
    cases = load(ROOT / "bench" / "settings" / "engine.toml", table("engine")).cases
    compared = [
        target.metric
        for case in cases.values()
        for target in case.targets
        if case.workload.get("shares", {}).get(target.peer, 1.0) < 1.0
    ]
    assert compared
    assert set(compared) == {METRIC}
