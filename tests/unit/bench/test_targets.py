"""Targets of benchmarks: their text, and how results are judged by them."""

from __future__ import annotations

import pytest
from bench.harness.results import Run, spread
from bench.harness.targets import State, Target, judge

from headrace.errors import BadSetting


def runs(side: str, *rates: float, **metrics: float) -> list[Run]:
    """A warm-up that must not count, then a run for each rate."""
    counted = [Run(side, i + 1, False, {"rate": rate, **metrics}) for i, rate in enumerate(rates)]
    return [Run(side, 0, True, {"rate": 1e12}), *counted]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("rate >= 2 x kafka", Target("rate", ">=", 2.0, "kafka")),
        ("p99_ms < 50", Target("p99_ms", "<", 50.0)),
        ("rate > 1_064_543", Target("rate", ">", 1064543.0)),
        ("p50_ms<=0.5 x kafka-uncompressed", Target("p50_ms", "<=", 0.5, "kafka-uncompressed")),
    ],
)
def test_a_target_is_parsed_from_text(text: str, target: Target) -> None:
    assert Target.parse(text) == target
    assert Target.parse(f"{target.metric} {str(target).replace(',', '')}") == target


@pytest.mark.parametrize("text", ["", "rate", "rate = 5", "rate >= fast", "rate >= 2 x"])
def test_invalid_target_text_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        Target.parse(text)


@pytest.mark.parametrize(
    ("text", "ours", "peer", "state"),
    [
        ("rate >= 2 x kafka", 200, 100, State.OK),
        ("rate >= 2 x kafka", 199, 100, State.MISSED),
        ("rate <= 0.5 x kafka", 50, 100, State.OK),
        ("rate >= 200", 200, 100, State.OK),
        ("rate > 200", 200, 100, State.MISSED),
        ("rate < 200", 199, 100, State.OK),
    ],
)
def test_a_target_is_judged_by_medians(text: str, ours: float, peer: float, state: State) -> None:
    measured = runs("ours", ours / 10, ours, ours * 10) + runs("kafka", peer, peer, peer * 50)
    (verdict,) = judge("case", ["ours", "kafka"], measured, [Target.parse(text)])
    assert (verdict.state, verdict.ours, verdict.peer, verdict.ratio) == (state, ours, peer, ours / peer)


def test_a_failed_side_fails_the_target() -> None:
    measured = [*runs("ours", 1000), Run("kafka", 0, True, error="no broker")]
    (verdict,) = judge("case", ["ours", "kafka"], measured, [Target.parse("rate >= 2 x kafka")])
    assert verdict.state is State.FAILED
    assert "no broker" in verdict.reason


def test_a_missing_metric_fails_the_target() -> None:
    (verdict,) = judge("case", ["ours"], runs("ours", 1), [Target.parse("p99_ms < 50")])
    assert verdict.state is State.FAILED


def test_a_peer_without_a_target_is_informational() -> None:
    measured = runs("ours", 300) + runs("kafka", 100) + runs("plain", 150)
    first, second = judge("case", ["ours", "kafka", "plain"], measured, [Target.parse("rate >= 2 x kafka")])
    assert first.state is State.OK
    assert (second.state, second.peer_name, second.ratio) == (State.INFORMATION, "plain", 2)


def test_a_reported_metric_needs_no_target() -> None:
    (verdict,) = judge("case", ["ours"], runs("ours", 1, peak_rss_mb=7), [], ["peak_rss_mb"])
    assert (verdict.state, verdict.metric, verdict.ours) == (State.INFORMATION, "peak_rss_mb", 7)


def test_spread_excludes_the_warm_up() -> None:
    assert spread(runs("ours", 3, 1, 2), "ours", "rate") == (1, 2, 3)
    assert spread([], "ours", "rate") is None
