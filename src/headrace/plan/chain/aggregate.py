"""GROUP BY without a window: a table with a row per group, which every row of the input changes.

Results come out one by one, as the rows went in. The time of a result is the latest among the rows behind it. A row
with a null in its group, and one without a payload, is reported and left out.

On a table a row that changes is first taken back from its group and then added to its new one. If both are the same
group that is one change of the result, else two: the group it left comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.plan.chain.build import ALWAYS, step_of
from headrace.plan.chain.compile import projector
from headrace.plan.chain.contract import Batch, Context, Event, Key, Problem, Row, Step
from headrace.plan.chain.fold import fold
from headrace.plan.chain.key_order import hashable
from headrace.plan.chain.sessions import SessionAggregate
from headrace.plan.chain.sliding import SlidingAggregate
from headrace.plan.chain.windows import WindowAggregate
from headrace.plan.nodes import Aggregate, Kind, WindowKind
from headrace.plan.types import is_nested

Grouped = tuple[Event, Row, Key, Any]
"""An event, the values computed from it (its group, then arguments), its group, and what a store finds that by."""


@step_of(Aggregate, old_from=ALWAYS)
def aggregate(node: Any, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    """The step for what is grouped (a stream or a table), and how."""
    del inputs
    if node.input.relation.kind is Kind.TABLE:
        return TableAggregate(node, context, old)
    if node.relation.window is None:
        return StreamAggregate(node, context, old)
    kind = _WINDOWED.get(node.relation.window.kind, WindowAggregate)
    return kind(node, Grouping(node, context), context, old)


_WINDOWED: dict[WindowKind, Any] = {WindowKind.SESSION: SessionAggregate, WindowKind.SLIDING: SlidingAggregate}


class Grouping:
    """The rows of a batch as groups and arguments."""

    def __init__(self, node: Any, context: Context) -> None:
        self.size = len(node.groups)
        self.where = f"GROUP BY {', '.join(named.name for named in node.groups)}"
        self.storable = hashable if any(is_nested(named.type) for named in node.groups) else None
        """What a store finds a group by; None if that is the group itself."""
        self._report = context.report
        expressions = [named.expression for named in node.groups]
        expressions += [argument for call in node.calls for argument in call.arguments]
        self.values = projector(expressions, node.input.relation, context, self.where)
        """Groups and then arguments of each entry of a batch; None for an entry without a row."""
        self.old_values = projector(expressions, node.input.relation, context, self.where, position=3)

    def rows(self, batch: Batch) -> Iterator[Grouped]:
        """The events that have a row and a group."""
        size, form = self.size, self.storable
        for event, values in zip(batch, self.values(batch), strict=True):
            if values is None:
                self.report("null-value", "a record without a payload counts in no group", event)
                continue
            group = values[:size]
            if None in group:
                self.report("null-group", "a row whose group is null has no place", event)
            else:
                yield event, values, group, group if form is None else form(group)

    def slot(self, group: Key) -> Any:
        """What a store finds a group by."""
        return group if self.storable is None else self.storable(group)

    def report(self, code: str, reason: str, entry: Any) -> None:
        time, key, row = entry[:3]
        self._report(Problem(code, reason, self.where, time, key, row))


class StreamAggregate:
    """Store `groups`: by group, its time and the states."""

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
        """Begin a group anew: what it held so far has been given out."""
        slot = self.grouping.slot(key)
        self.groups[slot] = [self.groups[slot][0], *self.fold.blank()[1:]]


class TableAggregate:
    """Store `groups`: by group, its time and the states. A group that has lost all its rows stays, with what is left.

    Every aggregate must know how to take back a row.
    """

    def __init__(self, node: Aggregate, context: Context, old: bool) -> None:
        self.grouping = Grouping(node, context)
        self.fold = fold(node.calls, context, first=1, at=len(node.groups))
        if self.fold.undo is None:
            names = ", ".join(call.function for call in node.calls)
            raise ValueError(f"{names}: not all of them can take back a row, as a table needs")
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
                self.grouping.report("null-group", "a row whose group is null has no place", change)
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
            return  # nothing is known of a row that leaves: it came before the chain began
        entry[0] = time if entry[0] is None else max(time, entry[0])
        self.groups[slot] = entry
        out.append((entry[0], group, self.fold.result(entry), before))
