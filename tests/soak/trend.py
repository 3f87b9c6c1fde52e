"""Whether something rises that must not: a line through what was seen after the warm-up, which is the first half.

A rise is what the line gains from the first of those samples to the last. The line is the median of those through any
two samples, so single peaks do not count: Java frees its memory when it likes to, and a worker may come or go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.soak.samples import Sample


@dataclass(frozen=True)
class Limit:
    """How much may be gained: so much, or a share of the mean if that is more."""

    absolute: float
    share: float = 0.0

    def of(self, mean: float) -> float:
        return max(self.absolute, self.share * mean)


LIMITS: Mapping[str, Limit] = {
    "server_mb": Limit(12.0, 0.05),
    "spark_mb": Limit(50.0, 0.10),  # its heap has a bound, up to which it may take its time
    "workers_mb": Limit(30.0, 0.10),
    "files": Limit(20.0, 0.05),
    "threads": Limit(40.0, 0.10),  # Spark has one for every task, for two seconds
}


@dataclass(frozen=True)
class Trend:
    name: str
    mean: float
    rise: float
    limit: float

    @property
    def is_flat(self) -> bool:
        return self.rise <= self.limit

    def __str__(self) -> str:
        said = "flat" if self.is_flat else "RISES"
        return f"{self.name:12} mean {self.mean:9,.1f}   rise {self.rise:+8,.1f}   limit {self.limit:6,.1f}   {said}"


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """Of everything that has a limit."""
    seen = samples[len(samples) // 2 :]
    at = np.array([one.at for one in seen])
    return [_trend(name, at, np.array([getattr(one, name) for one in seen]), limit) for name, limit in LIMITS.items()]


def _trend(name: str, at: np.ndarray, values: np.ndarray, limit: Limit) -> Trend:
    one, other = np.triu_indices(len(at), 1)
    slope = float(np.median((values[other] - values[one]) / (at[other] - at[one]))) if len(at) > 1 else 0.0
    mean = float(values.mean())
    return Trend(name, mean, slope * float(at[-1] - at[0]), limit.of(mean))
