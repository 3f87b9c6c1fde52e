"""The rows of table `chain`: purchases `(time, (user,), (item, amount))` in order of time, and users with a city each.

All sides get the same batches, created before the clock starts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from bench.harness.case import Outcome, Side, Work
from bench.harness.measure import stopwatch

Batch = list[Any]
Process = Callable[[Batch], Batch]
STEP_MS = 10
WINDOW_MS = 60_000
LEAST = 50


def purchases(work: Work) -> list[Batch]:
    """Batches of `batch_rows` rows, `records` in all, of `users` users; the same in every run."""
    dice = random.Random(4)
    users = [(f"user-{number}",) for number in range(work["users"])]
    rows = [
        (number * STEP_MS, dice.choice(users), (f"item-{dice.randrange(100)}", dice.randrange(100)))
        for number in range(work["records"])
    ]
    size = work["batch_rows"]
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def users(work: Work) -> Batch:
    return [(0, (f"user-{number}",), (f"city-{number % 50}",)) for number in range(work["users"])]


def side(make: Callable[[Work], Process]) -> Side:
    """Seconds to process all batches; `out` must be the same on all sides."""

    def run(work: Work) -> Outcome:
        process, batches, out = make(work), purchases(work), 0
        with stopwatch() as watch:
            for batch in batches:
                out += len(process(batch))
        return Outcome(work["records"], watch.seconds, extra={"out": out, "cpu_seconds": watch.cpu_seconds})

    return Side(run)
