"""GROUP BY without a window: a table with one row per group, updated by every input row.

Results are emitted one by one, in the order of the input rows. The time of a result is the latest time among its rows.
A row with a null in its group, or without a payload, is reported and dropped.

On a table, a row that changes is first retracted from its old group and then added to its new one. If the group is the
same, that is one change of the result, else two: the old group comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.plan.chain.aggregation.sessions import SessionAggregate
from headrace.plan.chain.aggregation.sliding import SlidingAggregate
from headrace.plan.chain.aggregation.windows import WindowAggregate
from headrace.plan.chain.key_order import hashable
from headrace.plan.chain.step_builder import ALWAYS, step_of
from headrace.plan.codegen.compiler import projector
from headrace.plan.codegen.fold import fold
from headrace.plan.nodes import Aggregate
from headrace.plan.relations import Kind, WindowKind
from headrace.plan.steps import Batch, Context, Event, Key, Problem, Row, Step
from headrace.plan.types import is_nested

Grouped = tuple[Event, Row, Key, Any]
"""An event, the values computed from it (its group, then arguments), its group, and the group's key in the store."""


@step_of(Aggregate, old_from=ALWAYS)
def aggregate(node: Any, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    """Builds the step for the kind of input and of window."""
    del inputs
    if node.input.relation.kind is Kind.TABLE:
        return TableAggregate(node, context, old)
    if node.relation.window is None:
        return StreamAggregate(node, context, old)
    kind = _WINDOWED.get(node.relation.window.kind, WindowAggregate)
    return kind(node, Grouping(node, context), context, old)


_WINDOWED: dict[WindowKind, Any] = {WindowKind.SESSION: SessionAggregate, WindowKind.SLIDING: SlidingAggregate}


class Grouping:
    """Computes group and arguments for the rows of a batch."""

    def __init__(self, node: Any, context: Context) -> None:
        self.size = len(node.groups)
        self.where = f"GROUP BY {', '.join(named.name for named in node.groups)}"
        self.storable = hashable if any(is_nested(named.type) for named in node.groups) else None
        """Converts a group to its key in the store; None if the group itself is the key."""
        self._report = context.report
        expressions = [named.expression for named in node.groups]
        expressions += [argument for call in node.calls for argument in call.arguments]
        self.values = projector(expressions, node.input.relation, context, self.where)
        """Groups and then arguments of each entry of a batch; None for an entry without a row."""
        self.old_values = projector(expressions, node.input.relation, context, self.where, position=3)

    def rows(self, batch: Batch) -> Iterator[Grouped]:
        """Yields the events that have a row and a group."""
        size, form = self.size, self.storable
        for event, values in zip(batch, self.values(batch), strict=True):
            if values is None:
                self.report("null-value", "a record without a value belongs to no group", event)
                continue
            group = values[:size]
            if None in group:
                self.report("null-group", "the group of the row is null", event)
            else:
                yield event, values, group, group if form is None else form(group)

    def slot(self, group: Key) -> Any:
        """Returns the group's key in the store."""
        return group if self.storable is None else self.storable(group)

    def report(self, code: str, reason: str, entry: Any) -> None:
        time, key, row = entry[:3]
        self._report(Problem(code, reason, self.where, time, key, row))


class StreamAggregate:
    """Aggregates a stream. Store `groups`: by group, its time and the states."""

    def __init__(self, node: Aggregate, context: Context, old: bool) -> None:
        self.grouping = Grouping(node, context)
        self.fold = fold(node.calls, context, first=1, at=len(node.groups))
        self.groups = context.store("groups")
        self.old = old

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        groups, blank, add, result = self.groups, self.fold.blank, self.fold.add, self.fold.result
        out: Batch = []
        for event, values, group, slot in self.grouping.rows(batch):
            entry = groups.get(slot)
            before = None
            if entry is None:
                entry = blank()
                entry[0] = event[0]
            else:
                if self.old:
                    before = result(entry)
                if event[0] > entry[0]:
                    entry[0] = event[0]
            add(entry, values, 0)
            groups[slot] = entry
            out.append((entry[0], group, result(entry), before))
        return out

    def restart(self, key: Key) -> None:
        """Resets a group after its result was emitted (discarding results)."""
        slot = self.grouping.slot(key)
        self.groups[slot] = [self.groups[slot][0], *self.fold.blank()[1:]]


class TableAggregate:
    """Aggregates a table. Store `groups`: by group, its time and the states. A group without rows keeps its entry.

    Every aggregate must support `undo`.
    """

    def __init__(self, node: Aggregate, context: Context, old: bool) -> None:
        self.grouping = Grouping(node, context)
        self.fold = fold(node.calls, context, first=1, at=len(node.groups))
        if self.fold.undo is None:
            names = ", ".join(call.function for call in node.calls)
            raise ValueError(f"{names}: not all of them support removing a row, which a table requires")
        self.undo = self.fold.undo
        self.groups = context.store("groups")
        self.old = old

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out: Batch = []
        news, olds = self.grouping.values(batch), self.grouping.old_values(batch)
        for change, new, old in zip(batch, news, olds, strict=True):
            left, joined = self._group(old), self._group(new)
            if new is not None and joined is None:
                self.grouping.report("null-group", "the group of the row is null", change)
            if left is not None and left == joined:
                self._change(change[0], left, old, new, out)
                continue
            if left is not None:
                self._change(change[0], left, old, None, out)
            if joined is not None:
                self._change(change[0], joined, None, new, out)
        return out

    def _group(self, values: Row | None) -> Key | None:
        group = values[: self.grouping.size] if values is not None else None
        return None if group is None or None in group else group

    def _change(self, time: int, group: Key, old: Row | None, new: Row | None, out: Batch) -> None:
        slot = self.grouping.slot(group)
        entry = self.groups.get(slot)
        before = self.fold.result(entry) if self.old and entry is not None else None
        if entry is not None and old is not None:
            self.undo(entry, old)
        if new is not None:
            entry = self.fold.blank() if entry is None else entry
            self.fold.add(entry, new, 0)
        if entry is None:
            return  # the retracted row arrived before the chain's state began
        entry[0] = time if entry[0] is None else max(time, entry[0])
        self.groups[slot] = entry
        out.append((entry[0], group, self.fold.result(entry), before))
