"""DISTINCT: of rows with equal values the first to arrive passes, unchanged.

Nulls equal each other, and so do NaNs. A row without a payload is reported and dropped.

Without a window a row is remembered forever. With a window, each window passes its first rows, by event time; stream
time and closing work as for GROUP BY: a row for a closed window is reported as `late-record` and dropped, and the
values seen in a window are dropped when it closes. Every row with a payload advances stream time, duplicates too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from headrace.plan.chain.aggregation.open_windows import OpenWindows, Place
from headrace.plan.chain.aggregation.windows import StreamClock, grace_of, milliseconds
from headrace.plan.chain.key_order import hashable
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.codegen.compiler import projector
from headrace.plan.nodes import Distinct
from headrace.plan.relations import Window
from headrace.plan.rewrite import relation_of
from headrace.plan.steps import Batch, Context, Event, Problem, Row, Step
from headrace.plan.types import DOUBLE, is_nested


@step_of(Distinct, old_from=NEVER)
def distinct(node: Distinct, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del old, inputs
    rows = DistinctKeys(node, context)
    return DistinctStep(rows, context) if node.window is None else WindowedDistinctStep(rows, node.window, context)


class DistinctKeys:
    """Computes for each row of a batch the store key under which equal rows are found."""

    def __init__(self, node: Distinct, context: Context) -> None:
        self.where = f"DISTINCT {', '.join(named.name for named in node.on)}"
        self._report = context.report
        self._values = projector([named.expression for named in node.on], relation_of(node.input), context, self.where)
        plain = not any(named.type == DOUBLE or is_nested(named.type) for named in node.on)
        self._form: Callable[[Row], Hashable] | None = None if plain else _alike

    def rows(self, batch: Batch) -> Iterator[tuple[Event, Hashable]]:
        form = self._form
        for event, values in zip(batch, self._values(batch), strict=True):
            if values is None:
                self.report("null-value", "a record without a value cannot be compared", event)
            else:
                yield event, values if form is None else form(values)

    def report(self, code: str, reason: str, event: Event) -> None:
        time, key, row = event
        self._report(Problem(code, reason, self.where, time, key, row))


def _alike(values: Row) -> Hashable:
    return _numbered(hashable(values))


def _numbered(value: Any) -> Hashable:
    """Replaces NaN, which does not equal itself and would never be found."""
    if isinstance(value, tuple):
        return tuple(map(_numbered, value))
    return "NaN" if value != value else value


class DistinctStep:
    """Deduplicates without a window. Store `seen`: the values of the rows that have passed."""

    def __init__(self, comparing: DistinctKeys, context: Context) -> None:
        self.comparing = comparing
        self.seen = context.store("seen")

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        seen, out = self.seen, []
        for event, values in self.comparing.rows(batch):
            if seen.get(values) is None:
                seen[values] = True
                out.append(event)
        return out


class WindowedDistinctStep:
    """Deduplicates per window. Stores: `seen`, by row values and window start; `closing`, the open windows; `clock`."""

    def __init__(self, comparing: DistinctKeys, window: Window, context: Context) -> None:
        self.comparing = comparing
        self.size = milliseconds(window.size)
        self.grace = grace_of(window)
        self.seen = context.store("seen")
        self.closing = OpenWindows(context.store("closing"))
        self.clock = StreamClock(context)

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        seen, size, now = self.seen, self.size, self.clock.now
        opened: list[Place] = []
        out: Batch = []
        for event, values in self.comparing.rows(batch):
            now = max(now, event[0])
            place = (values, max(event[0], 0) // size * size)
            if place[1] + size <= now - self.grace:
                reason = f"its window had closed: the time was {now}, the grace is {self.grace} ms"
                self.comparing.report("late-record", reason, event)
            elif seen.get(place) is None:
                seen[place] = True
                opened.append(place)
                out.append(event)
        self.closing.note(opened)
        self._close(now)
        return out

    def tick(self, now: int) -> Batch:
        self._close(now)
        return []

    def deadline(self) -> int | None:
        return None

    def _close(self, now: int) -> None:
        self.clock.advance(now)
        for place in self.closing.take(now - self.size - self.grace):
            del self.seen[place]
