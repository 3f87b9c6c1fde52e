"""Stream with table: each row with what the table says of its key at the moment the row arrives.

The table's changes are only remembered. The result has the row's time. A row with a null key has no match: it is
reported and dropped by an inner join, goes on alone in a left one. A row without a value is reported and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.plan.chain.build import NEVER, step_of
from headrace.plan.chain.contract import Batch, Context, Event, Key, Problem, Row, Step
from headrace.plan.chain.key_order import hashable, is_null
from headrace.plan.nodes import Enrich, JoinKind


class EnrichStep:
    """Port 0 is the stream, port 1 the table."""

    def __init__(self, node: Any, context: Context) -> None:
        self._table = context.store("table")
        self._report = context.report
        # What a row without a match gets: nulls, or nothing at all.
        self._missing = (None,) * len(node.right.relation.value) if node.kind is JoinKind.LEFT else None

    def process(self, port: int, batch: Batch) -> Batch:
        if port == 0:
            return self._enrich(batch)
        self._remember(batch)
        return []

    def _remember(self, batch: Batch) -> None:
        for _, key, new, _ in batch:
            if new is None:
                self._table.pop(hashable(key), None)
            else:
                self._table[hashable(key)] = new

    def _enrich(self, batch: Batch) -> Batch:
        out: list[Event] = []
        for time, key, row in batch:
            if row is None or is_null(key):
                match = self._unusable(time, key, row)
            else:
                match = self._table.get(hashable(key), self._missing)
            if row is not None and match is not None:
                out.append((time, key, row + match))
        return out

    def _unusable(self, time: int, key: Key | None, row: Row | None) -> Row | None:
        match = None if row is None else self._missing
        if match is None:
            code = "null-value" if row is None else "null-key"
            reason = "a join needs a key and a value"
            self._report(Problem(code, reason, "stream-table join", time, key, row))
        return match


@step_of(Enrich, old_from=NEVER)
def enrich(node: Enrich, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del old, inputs
    return EnrichStep(node, context)
