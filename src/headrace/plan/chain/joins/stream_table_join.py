"""Stream-table join: each row with the table's row of its key at the time the row arrives.

Changes of the table are only stored. The result has the row's time. A row with a null key has no match: it is reported
and dropped by an inner join, and emitted with nulls by a left join. A row without a value is reported and dropped. A
row without a match in an inner join is no error, and is not reported.

For joins by the row's own time see `table_versions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.plan.chain.aggregation.windows import milliseconds
from headrace.plan.chain.joins.table_versions import TableVersions
from headrace.plan.chain.key_order import hashable, is_null
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.nodes import JoinKind, StreamTableJoin
from headrace.plan.steps import Batch, Context, Event, Key, Problem, Row, Step


class StreamTableJoinStep:
    """Port 0 is the stream, port 1 the table. Store `table`: by key, the last row to arrive."""

    def __init__(self, node: Any, context: Context) -> None:
        self._table = context.store("table")
        self._report = context.report
        # The right side of an unmatched row: nulls, or None for no result.
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
            self._drop("null-value" if row is None else "null-key", "a join needs a key and a value", time, key, row)
        return match

    def _drop(self, code: str, reason: str, time: int, key: Key | None, row: Row | None) -> None:
        self._report(Problem(code, reason, "stream-table join", time, key, row))


class TemporalJoinStep(StreamTableJoinStep):
    """The same with the table's versions, by the row's own time."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._versions = TableVersions(context, milliseconds(node.history))

    def _remember(self, batch: Batch) -> None:
        for time, key, new, _ in batch:
            self._versions.put(time, hashable(key), new)

    def _enrich(self, batch: Batch) -> Batch:
        out: list[Event] = []
        for time, key, row in batch:
            self._versions.advance(time)
            if row is None or is_null(key):
                match = self._unusable(time, key, row)
            elif self._versions.is_forgotten(time):
                match = self._drop("late-record", "older than the table's history", time, key, row)
            else:
                version = self._versions.at(time, hashable(key))
                match = self._missing if version is None else version
            if row is not None and match is not None:
                out.append((time, key, row + match))
        return out


@step_of(StreamTableJoin, old_from=NEVER)
def stream_table_join(node: StreamTableJoin, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del old, inputs
    return StreamTableJoinStep(node, context) if node.history is None else TemporalJoinStep(node, context)
