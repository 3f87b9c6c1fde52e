"""DISTINCT: of rows that are equal in some values, the first in order of arrival goes on, as it is.

Nulls are equal to each other, and so is what is not a number. A row without a payload is reported and left out.

Without a window a row is remembered for ever. With one, each window has its first rows, by their own time; stream time
and closing are those of GROUP BY: what comes for a closed window is reported as `late-record` and left out, and what
was seen in a window is forgotten when it closes. Every row with a payload moves the time, those that do not go on too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from headrace.plan.chain.build import NEVER, step_of
from headrace.plan.chain.closing import Closing, Place
from headrace.plan.chain.compile import projector
from headrace.plan.chain.contract import Batch, Context, Event, Problem, Row, Step
from headrace.plan.chain.key_order import hashable
from headrace.plan.chain.windows import Clock, grace_of, milliseconds
from headrace.plan.nodes import Distinct, Window
from headrace.plan.rewriting import relation_of
from headrace.plan.types import DOUBLE, is_nested


@step_of(Distinct, old_from=NEVER)
def distinct(node: Distinct, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del old, inputs
    rows = Comparing(node, context)
    return FirstRows(rows, context) if node.window is None else FirstOfWindows(rows, node.window, context)


class Comparing:
    """The rows of a batch, each with what a store finds equal ones by."""

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
                self.report("null-value", "a record without a payload is equal to none", event)
            else:
                yield event, values if form is None else form(values)

    def report(self, code: str, reason: str, event: Event) -> None:
        time, key, row = event
        self._report(Problem(code, reason, self.where, time, key, row))


def _alike(values: Row) -> Hashable:
    return _numbered(hashable(values))


def _numbered(value: Any) -> Hashable:
    """What is not a number is not equal to itself, and would never be found."""
    if isinstance(value, tuple):
        return tuple(map(_numbered, value))
    return "NaN" if value != value else value


class FirstRows:
    """Store `seen`: the values of rows that have gone on."""

    def __init__(self, comparing: Comparing, context: Context) -> None:
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


class FirstOfWindows:
    """Stores: `seen`, by the values of a row and the start of its window; `closing`, which are open; `clock`."""

    def __init__(self, comparing: Comparing, window: Window, context: Context) -> None:
        self.comparing = comparing
        self.size = milliseconds(window.size)
        self.grace = grace_of(window)
        self.seen = context.store("seen")
        self.closing = Closing(context.store("closing"))
        self.clock = Clock(context)

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
