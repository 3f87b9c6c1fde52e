"""A soak: a server under load for some minutes, sampled every few seconds, and whether its resources grew."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench.tables.serve_server import Server, server, until

from tests.soak.load import STATEMENTS, Load
from tests.soak.samples import Sample, sample
from tests.soak.trend import Trend, trends

SETTINGS = {"spark_driver_memory": "512MB", "query_suspend_after": "15s"}
_BEGIN = 180.0  # seconds until a first result is there


@dataclass(frozen=True)
class Soaked:
    samples: list[Sample]
    trends: list[Trend]
    done: dict[str, int]

    @property
    def risen(self) -> list[Trend]:
        return [trend for trend in self.trends if not trend.is_flat]


def soak(folder: Path, lasting: timedelta, every: timedelta, tell: Callable[[object], None]) -> Soaked:
    """Raises if the server refuses something, or has lost or doubled a row in the end."""
    with server(folder, **SETTINGS) as there:
        there.ksql(STATEMENTS)
        load = Load(there)
        with load.going():
            until(lambda: bool(load.failures) or _counted(there) > 0, "a first row is counted", _BEGIN)
            samples = _watched(there, load, lasting, every, tell)
        rows = load.done["rows"]
        until(lambda: _counted(there) == rows, f"all {rows} rows are counted, and each once")
    return Soaked(samples, trends(samples), dict(load.done))


def _counted(there: Server) -> int:
    return sum(n for (n,) in there.rows("SELECT n FROM counts;"))


def _watched(
    there: Server, load: Load, lasting: timedelta, every: timedelta, tell: Callable[[object], None]
) -> list[Sample]:
    begun, samples = time.monotonic(), list[Sample]()
    while (at := time.monotonic() - begun) < lasting.total_seconds() and not load.failures:
        samples.append(sample(there.pid, at))
        tell(samples[-1])
        time.sleep(every.total_seconds())
    return samples
