"""Results: every run of every side, including warm-up runs, which are marked, and failed ones with their reason."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.harness.latency import curve, percentiles


class Spread(NamedTuple):
    """Min, median and max over the repeats."""

    min: float
    median: float
    max: float


@dataclass(frozen=True)
class Run:
    """One run of one side. `error` is set if it has no outcome."""

    side: str
    number: int
    warmup: bool
    metrics: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[tuple[float, float]] = ()
    error: str | None = None


def metrics_of(outcome: Mapping[str, Any]) -> dict[str, float]:
    """The flat figures of an outcome: records, seconds, rate, percentiles, and the side's own metrics."""
    records, seconds = outcome["records"], outcome["seconds"]
    return {
        "records": records,
        "seconds": seconds,
        "rate": records / seconds if seconds else 0.0,
        **percentiles(outcome.get("latencies") or ()),
        **(outcome.get("extra") or {}),
    }


def curve_of(outcome: Mapping[str, Any]) -> list[tuple[float, float]]:
    return curve(outcome.get("latencies") or ())


def spread(runs: Sequence[Run], side: str, metric: str) -> Spread | None:
    """Over the side's counted runs; None if no run has the metric."""
    values = [run.metrics[metric] for run in runs if run.side == side and not run.warmup and metric in run.metrics]
    return Spread(min(values), statistics.median(values), max(values)) if values else None


def metric_names(runs: Sequence[Run]) -> list[str]:
    """Every metric that some run has, in the order of appearance."""
    return list(dict.fromkeys(name for run in runs for name in run.metrics))


_UNITS = {"_ms": " ms", "_mb": " MB", "seconds": " s", "_percent": " %"}


def figure(metric: str, value: float | None, unit: str) -> str:
    """A value for people, with its unit: `1.76 M records/s`, `3.2 ms`."""
    if value is None:
        return "-"
    if metric.endswith("rate"):
        return f"{short(value)} {unit}/s"
    suffix = next((text for ending, text in _UNITS.items() if metric.endswith(ending)), "")
    return f"{short(value)}{suffix}"


def short(value: float) -> str:
    for size, suffix in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
