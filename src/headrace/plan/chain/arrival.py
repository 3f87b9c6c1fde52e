"""Processing time: each row at the time it arrives, so that what follows counts by that.

The time of arrival is input: `Context.arrival` gives it for the records that are being fed, and a replay gives the
same. It does not go backwards: a row arrives no earlier than the one before it. So no row is late, and a tick closes a
window when the clock says that it is over. Where nobody tells the time of arrival, it is the row's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.chain.build import NEVER, step_of
from headrace.plan.chain.contract import Batch, Context, Step
from headrace.plan.chain.windows import Clock
from headrace.plan.nodes import Arrival


class ArrivalStep:
    def __init__(self, context: Context) -> None:
        self._arrival = context.arrival
        self._clock = Clock(context)

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        now, arrived = self._clock.now, self._arrival()
        out: Batch = []
        for time, key, row in batch:
            now = max(now, time if arrived is None else arrived)
            out.append((now, key, row))
        self._clock.advance(now)
        return out

    def tick(self, now: int) -> Batch:
        """Time has passed: what comes after that arrives after that."""
        self._clock.advance(now)
        return []

    def deadline(self) -> int | None:
        return None


@step_of(Arrival, old_from=NEVER)
def arrival(node: Arrival, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del node, old, inputs
    return ArrivalStep(context)
