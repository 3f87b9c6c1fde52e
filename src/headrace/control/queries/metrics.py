"""Metrics of running queries: current values, and rates over the last seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.control.workers.handle import QueryHandle

_RATE_WINDOW = 5.0  # seconds over which a rate is computed
_CATCH_UP_THRESHOLD = 3.0  # seconds of lag; with less a query is not catching up


@dataclass(frozen=True)
class QueryMetrics:
    """Metrics of one query. `event_time` is the latest that it has seen, in ms; `dead_letters` are counted by code."""

    query: str
    sink: str
    execution_mode: str
    state: str
    """running, stopped or failed."""
    records: int = 0
    written: int = 0
    rate: float = 0.0
    """Records read per second."""
    lag: int = 0
    """In records."""
    catch_up: float | None = None
    """While it is catching up: progress from 0 to 1."""
    seconds_left: float | None = None
    batches: int = 0
    batch_time: Mapping[str, int] = field(default_factory=dict)
    """Duration of the last batch in ms: `total`, and by phase."""
    state_rows: int = 0
    """Number of keys and values in its state."""
    event_time: int | None = None
    late: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)


@dataclass
class MetricsWindow:
    """Samples of one query, from which rates are computed."""

    samples: deque[tuple[float, int]] = field(default_factory=deque)
    max_lag: int = 0
    """The highest lag since the lag was last 0."""

    def rate(self, at: float, records: int) -> float:
        self.samples.append((at, records))
        while len(self.samples) > 2 and at - self.samples[0][0] > _RATE_WINDOW:
            self.samples.popleft()
        first_at, first = self.samples[0]
        return (records - first) / (at - first_at) if at > first_at else 0.0

    def catching_up(self, lag: int, rate: float) -> tuple[float | None, float | None]:
        """Progress from 0 to 1, and the seconds left; None if the lag is below the threshold."""
        self.max_lag = max(self.max_lag, lag) if lag else 0
        if not rate or lag < rate * _CATCH_UP_THRESHOLD:
            return None, None
        return 1 - lag / self.max_lag, lag / rate


class MetricsSampler:
    """Samples queries; remembers earlier samples for the rates."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._windows: dict[str, MetricsWindow] = {}

    def sample(self, running: QueryHandle) -> QueryMetrics:
        progress, at = running.progress, self._now()
        window = self._windows.setdefault(running.query.id, MetricsWindow(deque([(at, 0)])))
        lag = running.lag()
        rate = window.rate(at, progress.records)
        progress_made, seconds_left = window.catching_up(lag, rate)
        return QueryMetrics(
            running.query.id,
            running.query.sink.topic,
            running.execution_mode,
            "running" if running.is_active else "failed" if running.failure() else "stopped",
            progress.records,
            progress.written,
            rate,
            lag,
            progress_made,
            seconds_left,
            progress.batches,
            running.batch_time,
            progress.state,
            progress.time,
            progress.late,
            dict(progress.problems),
        )
