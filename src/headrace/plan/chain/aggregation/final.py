"""EMIT FINAL: emits each window's last result once, when no more rows can arrive for it.

The step sits directly on the windowed aggregate and shares its stream time: the latest time among the results. A window
is emitted when stream time has reached its end plus the grace; a session when stream time is later than its end plus
gap and grace. Windows that are due together are emitted by window and then by key, at the time of their latest row.

Idle input: `tick(now)` says that event time has reached `now` without a row. It counts as a row of that time would,
here and in the aggregate below, and rows for a window closed by it are late. The caller ticks when `deadline()`, the
next time at which a window closes, has passed on the clock that replaces event time while nothing arrives; it journals
the tick, so that a replay closes the same windows at the same position.

If the window has an idle timeout, a tick that long after the latest result emits all of them.

If the window has a retention, windows that began earlier than that before the newest one are dropped as in Kafka
Streams, even if they were never emitted: they are reported as `window-expired`. Without a retention nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.plan.chain.aggregation.windows import StreamClock, closing_delay, grace_of, milliseconds
from headrace.plan.chain.key_order import hashable, order_of
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.chain.timeline import Timeline
from headrace.plan.nodes import Final
from headrace.plan.relations import Window, WindowKind
from headrace.plan.steps import Batch, Context, Key, Problem, Step


@step_of(Final, old_from=NEVER)
def final(node: Any, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    """Builds the step. A window that is emitted once has no old value."""
    del old, inputs
    return FinalWindows(node, context)


class FinalWindows:
    """Stores: `last`, by key and window, the last result; `due`, when each is emitted."""

    def __init__(self, node: Any, context: Context) -> None:
        window: Window = node.relation.window
        session = window.kind is WindowKind.SESSION
        self.delay = grace_of(window) + closing_delay(window)
        self.forgotten = None if session or window.retention is None else _forgotten(window)
        self.where = f"EMIT FINAL over {', '.join(field.name for field in node.relation.key)}"
        self.order = order_of(node)
        self.report = context.report
        self.last = context.store("last")
        self.due = Timeline(context.store("due"), milliseconds(window.advance or window.size or window.gap))
        self.clock = StreamClock(context, window.idle)

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out: Batch = []
        now = self.clock.now
        for change in batch:
            self._store_result(change, now)
            if change[0] > now:
                now = change[0]
                self.clock.advance(now)
                out += self._ready(now)
        self.clock.note(batch)
        return out

    def tick(self, now: int) -> Batch:
        stream_time = self.clock.ticked(now, self.due.last)
        self.clock.advance(stream_time)
        return list(self._ready(stream_time))

    def deadline(self) -> int | None:
        first, idle_at = self.due.first(), self.clock.idle_at()
        return first if first is None or idle_at is None else min(first, idle_at)

    def _store_result(self, change: Any, now: int) -> None:
        time, key, new = change[:3]
        due_time = key[-1][1] + self.delay
        slot = hashable(key)
        known = slot in self.last
        if due_time <= now:
            if new is not None:
                reason = f"the result of its window was emitted at {due_time}"
                self.report(Problem("late-record", reason, self.where, time, key, new))
        elif known or new is not None:
            # A deletion is stored as a marker, since a session that grows is deleted and created again.
            self.last[slot] = None if new is None else (time, key, new)
            if not known:
                self.due.add((due_time, self._place(key), slot))

    def _place(self, key: Key) -> bytes:
        """Returns the sort key among windows that end together: by start, then by key."""
        return (key[-1][0] & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8) + self.order(key[:-1])

    def _ready(self, now: int) -> Iterator[Any]:
        for _, _, slot in self.due.take(now):
            result = self.last.pop(slot)
            if result is None:
                continue
            time, key, row = result
            if self.forgotten is not None and self.forgotten(key[-1][0], now):
                self.report(Problem("window-expired", "its retention is over", self.where, time, key, row))
            else:
                yield time, key, row, None


def _forgotten(window: Window) -> Callable[[int, int], bool]:
    advance, retention = milliseconds(window.advance or window.size), milliseconds(window.retention)
    return lambda start, now: start < now // advance * advance - retention
