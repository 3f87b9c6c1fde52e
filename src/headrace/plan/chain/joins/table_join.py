"""Table-table join on the same key: the result changes with either table.

The step stores the last row of each side, so it needs no `old` from its inputs. A result's time is the later of the two
rows'. As in Kafka Streams a change is emitted whenever the other side has a row for the key, even the deletion of a
result that did not exist; where the other side has none, it is emitted if this side is outer and had or has a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.plan.chain.joins.stream_join import OUTER_SIDES
from headrace.plan.chain.key_order import hashable, is_null
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.nodes import TableJoin
from headrace.plan.steps import Batch, Change, Context, Problem, Row, Step

Joined = Callable[[Row | None, Row | None], Row | None]
"""(left row, right row) of a key -> the result's row."""


class TableJoinStep:
    """Port 0 is left, port 1 right."""

    def __init__(self, node: Any, context: Context, old: bool) -> None:
        self._tables = (context.store("left"), context.store("right"))
        self._outer = OUTER_SIDES[node.kind]
        self._old = old
        self._report = context.report
        self._joined = (_joiner(node), _flipped(_joiner(node)))

    def process(self, port: int, batch: Batch) -> Batch:
        own_table, other_table = self._tables[port], self._tables[1 - port]
        outer, joined = self._outer[port], self._joined[port]
        out: list[Change] = []
        for time, key, new, _ in batch:
            if is_null(key):
                self._report(Problem("null-key", "a table's row needs a key", "table-table join", time, key, new))
                continue
            slot = hashable(key)
            _, before = own_table.get(slot) or (0, None)
            self._remember(port, slot, time, new)
            at, other = other_table.get(slot) or (time, None)
            if other is not None or (outer and not (new is None and before is None)):
                out.append((max(time, at), key, joined(new, other), joined(before, other) if self._old else None))
        return out

    def _remember(self, port: int, slot: object, time: int, new: Row | None) -> None:
        if new is None:
            self._tables[port].pop(slot, None)
        else:
            self._tables[port][slot] = (time, new)


def _joiner(node: Any) -> Joined:
    left_outer, right_outer = OUTER_SIDES[node.kind]
    no_left, no_right = (None,) * len(node.left.relation.value), (None,) * len(node.right.relation.value)

    def joined(left: Row | None, right: Row | None) -> Row | None:
        if left is None:
            return no_left + right if right is not None and right_outer else None
        if right is None:
            return left + no_right if left_outer else None
        return left + right

    return joined


def _flipped(joined: Joined) -> Joined:
    return lambda right, left: joined(left, right)


@step_of(TableJoin, old_from=NEVER)
def table_join(node: TableJoin, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del inputs
    return TableJoinStep(node, context, old)
