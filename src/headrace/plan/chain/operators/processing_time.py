"""Processing time: assigns each row its arrival time, which later steps use as event time.

The arrival time is input: `Context.arrival` returns it for the records being fed, and a replay returns the same. It
never decreases: a row arrives no earlier than the one before it. So no row is late, and a tick closes a window when the
clock has passed its end. Without `Context.arrival`, it is the row's own time.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.chain.aggregation.windows import StreamClock
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.nodes import ProcessingTime
from headrace.plan.steps import Batch, Context, Step


class ProcessingTimeStep:
    def __init__(self, context: Context) -> None:
        self._arrival = context.arrival
        self._clock = StreamClock(context)

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
        """Advances time: later rows arrive no earlier than `now`."""
        self._clock.advance(now)
        return []

    def deadline(self) -> int | None:
        return None


@step_of(ProcessingTime, old_from=NEVER)
def processing_time(node: ProcessingTime, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del node, old, inputs
    return ProcessingTimeStep(context)
