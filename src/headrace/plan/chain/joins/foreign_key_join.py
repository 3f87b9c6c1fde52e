"""Foreign-key join of two tables: `reference`, computed from a left row, is the key of its right row.

The result has the left table's key. Left rows subscribe to the right key they reference, whether it exists or not; a
change on the right goes to all its subscribers, in the byte order of their keys (see `key_order`). A result's time is
the later of the two rows'. The output is that of Kafka Streams (KIP-213, KIP-962): it does not know whether a left row
had a result before, so a left row that is deleted, or changes to a right key without a row, always emits a deletion.

A null reference is reported; it gives no result in an inner join and a result with nulls in a left join.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from operator import itemgetter
from typing import Any

from headrace.plan.chain.key_order import hashable, is_null, order_of
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.codegen.compiler import evaluator
from headrace.plan.nodes import ForeignKeyJoin, JoinKind
from headrace.plan.steps import Batch, Change, Context, Key, Problem, Row, Step

WHERE = "foreign-key join"
_ORDER = itemgetter(0)


class ForeignKeyJoinStep:
    """Port 0 is the referencing table, port 1 the referenced one."""

    def __init__(self, node: Any, context: Context, old: bool) -> None:
        self._left = context.store("left")  # key -> (time, key, row, reference)
        self._right = context.store("right")  # reference -> (time, row)
        self._subscribers = context.store("subscribers")  # reference -> sorted (order, left key)
        self._results = context.store("results") if old else None
        self._report = context.report
        self._order = order_of(node.left)
        self._outer = node.kind is JoinKind.LEFT
        self._missing = (None,) * len(node.right.relation.value)
        self._reference = evaluator([node.reference], node.left.relation, context, WHERE)

    def process(self, port: int, batch: Batch) -> Batch:
        out: list[Change] = []
        change = self._referred if port else self._refer
        for time, key, new, _ in batch:
            if is_null(key):
                self._report(Problem("null-key", "a table's row needs a key", WHERE, time, key, new))
            else:
                change(time, key, new, out)
        return out

    def _refer(self, time: int, key: Key, new: Row | None, out: list[Change]) -> None:
        """Handles a change of a left row."""
        slot = hashable(key)
        previous = self._left.get(slot)
        before = previous[3] if previous else None
        after = None if new is None else self._reference_of(time, key, new)
        if before is not None and before != after:
            self._unsubscribe(before, slot, key)
        if new is None:
            self._left.pop(slot, None)
        else:
            self._left[slot] = (time, key, new, after)
            self._subscribe(after, slot, key, known=before == after)
        send = self._emit_outer if self._outer else self._emit_inner
        send(time, key, new, before, after, previous is not None, out)

    def _emit_outer(
        self, time: int, key: Key, new: Row | None, before: Any, after: Any, known: bool, out: list[Change]
    ) -> None:
        del before
        if new is not None or known:
            at, right = self._right.get(after) or (time, None)
            self._send(max(time, at), key, new, right, out)

    def _emit_inner(
        self, time: int, key: Key, new: Row | None, before: Any, after: Any, known: bool, out: list[Change]
    ) -> None:
        del known
        if after is None:
            if new is not None:
                self._report(Problem("null-reference", "the foreign key of the row is null", WHERE, time, key, new))
            if before is not None:
                self._send(max(time, (self._right.get(before) or (time,))[0]), key, None, None, out)
            return
        at, right = self._right.get(after) or (time, None)
        if right is not None or before not in (None, after):
            self._send(max(time, at), key, new, right, out)

    def _referred(self, time: int, key: Key, new: Row | None, out: list[Change]) -> None:
        """Handles a change of a right row."""
        slot = hashable(key)
        if new is None:
            self._right.pop(slot, None)
        else:
            self._right[slot] = (time, new)
        for _, subscriber in self._subscribers.get(slot, ()):
            at, left_key, row, _ = self._left[subscriber]
            self._send(max(time, at), left_key, row, new, out)

    def _reference_of(self, time: int, key: Key, row: Row) -> Hashable:
        """Returns the right key that a left row references; None if there is none."""
        reference = self._reference(time, key, row)
        return None if is_null(reference) else hashable(reference)

    def _subscribe(self, reference: Hashable, slot: Hashable, key: Key, known: bool) -> None:
        if reference is None or known:
            return
        subscribers = self._subscribers.get(reference, [])
        order = self._order(key)
        subscribers.insert(bisect_left(subscribers, order, key=_ORDER), (order, slot))
        self._subscribers[reference] = subscribers

    def _unsubscribe(self, reference: Hashable, slot: Hashable, key: Key) -> None:
        subscribers = self._subscribers[reference]
        del subscribers[
            subscribers.index((self._order(key), slot), bisect_left(subscribers, self._order(key), key=_ORDER))
        ]
        if subscribers:
            self._subscribers[reference] = subscribers
        else:
            del self._subscribers[reference]

    def _send(self, time: int, key: Key, left: Row | None, right: Row | None, out: list[Change]) -> None:
        result = None
        if left is not None and (right is not None or self._outer):
            result = left + (self._missing if right is None else right)
        out.append((time, key, result, self._replaced(key, result)))

    def _replaced(self, key: Key, result: Row | None) -> Row | None:
        """Returns what was last emitted for the key, if `old` is requested."""
        if self._results is None:
            return None
        before = self._results.pop(hashable(key), None)
        if result is not None:
            self._results[hashable(key)] = result
        return before


@step_of(ForeignKeyJoin, old_from=NEVER)
def foreign_key_join(node: ForeignKeyJoin, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del inputs
    return ForeignKeyJoinStep(node, context, old)
