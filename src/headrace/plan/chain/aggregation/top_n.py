"""ORDER BY ... LIMIT n: a table of the first n rows. A row that enters evicts the last one; the deletion comes first.

Nulls (and NaN) sort last in either direction; among equals the first to arrive stays first.

Over a table every row is stored, since a deletion lets the next row in. Over a stream nothing is ever retracted, so n
rows are enough: of each key the best row so far counts, and rows that do not reach the first n are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sortedcontainers import SortedList

from headrace.plan.chain.key_order import hashable, is_null
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.codegen.compiler import evaluator
from headrace.plan.nodes import TopN
from headrace.plan.relations import Kind
from headrace.plan.steps import Batch, Change, Context, Key, Problem, Row, Step

WHERE = "ORDER BY ... LIMIT"
Rank = tuple[Any, ...]


class _Down:
    """Inverts the order of a value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Down) -> bool:
        return other.value < self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class TopNStep:
    """The store holds (number, time, key, row, values of the order); the sorted list is rebuilt from it."""

    def __init__(self, node: Any, context: Context, old: bool) -> None:
        self._rows = context.store("rows")
        self._counter = context.store("counter")
        self._report = context.report
        self._count = node.count
        self._old = old
        self._keeps_all = node.input.relation.kind is Kind.TABLE
        self._values = evaluator([e for e, _ in node.order], node.input.relation, context, WHERE)
        self._rank = ranker([down for _, down in node.order])
        self._sorted: SortedList | None = None
        """Of each row its rank, its unique number by arrival, and its key in the store."""

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out: list[Change] = []
        for time, key, new, *_ in batch:
            if is_null(key) or (new is None and not self._keeps_all):
                code = "null-key" if is_null(key) else "null-value"
                self._report(Problem(code, "a table's row needs a key and a value", WHERE, time, key, new))
            elif self._count > 0:
                self._change(time, key, new, out)
        return out

    def _change(self, time: int, key: Key, new: Row | None, out: list[Change]) -> None:
        ranks, slot = self._ranks(), hashable(key)
        before = self._rows.get(slot)
        values = None if new is None else self._values(time, key, new)
        if before is not None and not self._keeps_all and not self._rank(values) < self._rank(before[4]):
            return
        was_in = before is not None and self._leave(ranks, slot)
        number = -1 if values is None else self._enter(ranks, slot, (time, key, new, values), before)
        is_in = values is not None and ranks.index((self._rank(values), number, slot)) < self._count
        self._emit_changes(time, key, before[3] if before else None, new, was_in, is_in, out)
        if not self._keeps_all and len(ranks) > self._count:
            del self._rows[ranks.pop()[2]]

    def _emit_changes(
        self, time: int, key: Key, before: Row | None, new: Row | None, was_in: bool, is_in: bool, out: list[Change]
    ) -> None:
        if was_in and is_in:
            self._send(time, key, new, before, out)
        elif is_in:
            if (pushed := self._at(self._count)) is not None:
                self._send(time, pushed[2], None, pushed[3], out)
            self._send(time, key, new, None, out)
        elif was_in:
            self._send(time, key, None, before, out)
            if (next_best := self._at(self._count - 1)) is not None:
                self._send(time, next_best[2], next_best[3], None, out)

    def _send(self, time: int, key: Key, new: Row | None, before: Row | None, out: list[Change]) -> None:
        out.append((time, key, new, before if self._old else None))

    def _leave(self, ranks: SortedList, slot: Any) -> bool:
        """Removes a row; returns whether it was among the first n."""
        number, _, _, _, values = self._rows.pop(slot)
        place = ranks.index((self._rank(values), number, slot))
        del ranks[place]
        return place < self._count

    def _enter(self, ranks: SortedList, slot: Any, entry: tuple[Any, ...], before: tuple[Any, ...] | None) -> int:
        """Adds a row; an update with the same rank keeps its number, and so its place among equals."""
        rank = self._rank(entry[3])
        if before is not None and self._rank(before[4]) == rank:
            number = before[0]
        else:
            number = self._counter.get("next", 0)
            self._counter["next"] = number + 1
        self._rows[slot] = (number, *entry)
        ranks.add((rank, number, slot))
        return number

    def _at(self, place: int) -> tuple[Any, ...] | None:
        ranks = self._ranks()
        return self._rows[ranks[place][2]] if place < len(ranks) else None

    def _ranks(self) -> SortedList:
        if self._sorted is None:
            rows = self._rows.items()
            self._sorted = SortedList((self._rank(entry[4]), entry[0], slot) for slot, entry in rows)
        return self._sorted


def ranker(downwards: Sequence[bool]) -> Callable[[Any], Rank]:
    """Returns a function from values of the order to a sortable rank."""
    return lambda values: tuple(_place(v, down) for v, down in zip(values, downwards, strict=True))


def _place(value: Any, down: bool) -> tuple[Any, ...]:
    if value is None or value != value:  # only NaN differs from itself
        return (1,)
    return (0, _Down(value) if down else value)


@step_of(TopN, old_from=NEVER)
def top_n(node: TopN, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del inputs
    return TopNStep(node, context, old)
