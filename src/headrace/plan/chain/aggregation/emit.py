"""Holds changes back until their trigger fires; `headrace.plan.triggers` defines each trigger.

All triggers share one mechanism: a change is held until a due time that follows from stream time and, for panes, from
the window. The first change of a key since it was last emitted determines the due time; later ones only replace the
held value.

Discarding results resets the aggregate below, so the two process rows one by one (see `Chain`): a row advances time
before the aggregate takes it, even a row that the aggregate then drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatch
from typing import Any

from headrace.plan.chain.aggregation.windows import StreamClock, closing_delay, milliseconds
from headrace.plan.chain.key_order import hashable
from headrace.plan.chain.step_builder import ALWAYS, step_of
from headrace.plan.chain.timeline import Timeline
from headrace.plan.nodes import Emit
from headrace.plan.relations import Window
from headrace.plan.steps import Batch, Change, Context, Key, Row, Step
from headrace.plan.triggers import After, Every, Panes, PerBatch, PerRecord, Results, Trigger

DueTime = Callable[[int, Key], int]
"""(stream time, key) -> when a change of that key is due."""

BATCH_END = 1 << 62
"""Later than any time: only the end of a batch reaches it."""


@step_of(Emit, old_from=ALWAYS)
def emit(node: Emit, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    """Builds the step. The `old` value of the first held change is the value that was last emitted."""
    del old
    if node.results is Results.DISCARDING:
        return DiscardingStep(node, context, inputs[0])
    return EmitStep(node, context)


class EmitStep:
    """Holds changes. Stores: `held`, by key, the last change and the value before the first; `due`, the keys by due
    time; `count`, the number of changes held so far, which orders them.
    """

    def __init__(self, node: Emit, context: Context) -> None:
        window = node.relation.window
        idle = window.idle if window and isinstance(node.trigger, Panes) else None
        self.retracts = node.results is Results.RETRACTING
        self.batched = isinstance(node.trigger, PerBatch)
        self.due_time = due_time_of(node.trigger, window)
        self.held = context.store("held")
        self.due = Timeline(context.store("due"), 1000)
        self.count = context.store("count")
        self.clock = StreamClock(context, idle)

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out: Batch = []
        now = self.clock.now
        for change in batch:
            if change[0] > now:
                now = change[0]
                out += self._fire(now)
            if self._hold(change, now) <= now:
                out += self._fire(now)
        self.clock.advance(now)
        self.clock.note(batch)
        return out

    def tick(self, now: int) -> Batch:
        return self.advance(self.clock.ticked(now, self.due.last))

    def advance(self, now: int) -> Batch:
        """Emits what is due by `now`."""
        self.clock.advance(now)
        return list(self._fire(self.clock.now))

    def flush(self) -> Batch:
        """Emits what is due at the end of the batch."""
        return list(self._fire(BATCH_END)) if self.batched else []

    def deadline(self) -> int | None:
        first, idle_at = self.due.first(), self.clock.idle_at()
        if first is None or self.batched:
            return None
        return first if idle_at is None else min(first, idle_at)

    def _hold(self, change: Change, now: int) -> int:
        """Holds a change; returns its due time."""
        time, key, new, old = change
        slot = hashable(key)
        before, due_time = self.held.get(slot, (None,) * 5)[3:]
        if due_time is None:
            before, due_time = old, self.due_time(now, key)
            number = self.count["next"] = self.count.get("next", 0) + 1
            self.due.add((due_time, number.to_bytes(8), slot))
        self.held[slot] = (time, key, new, before, due_time)
        return due_time

    def _fire(self, now: int) -> Iterator[Change]:
        for _, _, slot in self.due.take(now):
            time, key, new, old, _ = self.held.pop(slot)
            yield from self._emit(time, key, new, old)

    def _emit(self, time: int, key: Key, new: Row | None, old: Row | None) -> Iterator[Change]:
        if self.retracts and new is not None and old is not None:
            yield time, key, None, old
            yield time, key, new, None
        elif new is not None or old is not None:
            yield time, key, new, old


class DiscardingStep(EmitStep):
    """Resets the aggregate below whenever its result is emitted, so that it holds only rows not yet emitted."""

    def __init__(self, node: Emit, context: Context, below: Any) -> None:
        super().__init__(node, context)
        self.restarts: Callable[[Key], None] = below.restart

    def _emit(self, time: int, key: Key, new: Row | None, old: Row | None) -> Iterator[Change]:
        if new is not None:
            self.restarts(key)
            yield time, key, new, None


@singledispatch
def due_time_of(trigger: Trigger, window: Window | None) -> DueTime:
    """Returns the function that computes a change's due time."""
    raise NotImplementedError(f"{type(trigger).__name__} is not a trigger")


@due_time_of.register
def _(trigger: PerRecord, window: Window | None) -> DueTime:
    return lambda now, key: now


@due_time_of.register
def _(trigger: PerBatch, window: Window | None) -> DueTime:
    return lambda now, key: BATCH_END


@due_time_of.register
def _(trigger: Every, window: Window | None) -> DueTime:
    period = max(milliseconds(trigger.period), 1)
    return lambda now, key: (now // period + 1) * period


@due_time_of.register
def _(trigger: After, window: Window | None) -> DueTime:
    delay = milliseconds(trigger.delay)
    return lambda now, key: now + delay


@due_time_of.register
def _(trigger: Panes, window: Window | None) -> DueTime:
    if window is None:
        raise ValueError("panes require a window")
    early = _at_end if trigger.early is None else due_time_of(trigger.early, window)
    late = due_time_of(trigger.late or PerRecord(), window)
    delay = closing_delay(window)

    def due_time(now: int, key: Key) -> int:
        end = key[-1][1] + delay
        return min(early(now, key), end) if now < end else late(now, key)

    return due_time


def _at_end(now: int, key: Key) -> int:
    del now, key
    return BATCH_END
