"""Source steps: events pass unchanged for a stream and become changes for a table.

A table that must provide `old` stores the last row of every key. A late change counts as well: the last row to arrive
is the table's row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.plan.chain.key_order import hashable
from headrace.plan.chain.step_builder import step_of
from headrace.plan.nodes import Source
from headrace.plan.relations import Kind
from headrace.plan.steps import Batch, Context, Problem, Step, Store
from headrace.plan.types import is_nested


@dataclass(frozen=True, slots=True)
class StreamSourceStep:
    """A stream source: events pass unchanged."""

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        return batch


@dataclass(frozen=True, slots=True)
class TableSourceStep:
    """A table source without `old` values."""

    name: str
    context: Context

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out = [(time, key, row, None) for time, key, row in batch if key is not None]
        if len(out) < len(batch):
            _report_keyless(self.name, self.context, batch)
        return out


@dataclass(frozen=True, slots=True)
class MaterializedTableSourceStep:
    """A table source that stores its rows to provide `old` values."""

    name: str
    context: Context
    rows: Store
    nested: bool
    """The key contains lists or maps, which are not hashable."""

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        rows, nested, out = self.rows, self.nested, []
        for time, key, row in batch:
            if key is None:
                continue
            slot = hashable(key) if nested else key
            out.append((time, key, row, rows.get(slot)))
            if row is None:
                rows.pop(slot, None)
            else:
                rows[slot] = row
        if len(out) < len(batch):
            _report_keyless(self.name, self.context, batch)
        return out


def _report_keyless(name: str, context: Context, batch: Batch) -> None:
    for time, key, row in batch:
        if key is None:
            context.report(Problem("null-key", "a table's record needs a key", f"table {name}", time, key, row))


@step_of(Source)
def source(node: Source, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del inputs
    if node.relation.kind is Kind.STREAM:
        return StreamSourceStep()
    if not old:
        return TableSourceStep(node.name, context)
    return MaterializedTableSourceStep(
        node.name, context, context.store("rows"), any(is_nested(f.type) for f in node.relation.key)
    )
