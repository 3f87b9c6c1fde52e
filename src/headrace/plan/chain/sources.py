"""Where rows enter: events as they are for a stream, changes for a table.

A table that must tell what was there before keeps the last row of every key. A change that is late counts as well: the
last to arrive is what the table holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.plan.chain.build import step_of
from headrace.plan.chain.contract import Batch, Context, Problem, Step, Store
from headrace.plan.chain.key_order import hashable
from headrace.plan.nodes import Kind, Source
from headrace.plan.types import is_nested


@dataclass(frozen=True, slots=True)
class Events:
    """A stream: every record is a fact."""

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        return batch


@dataclass(frozen=True, slots=True)
class Changes:
    """A table of which nobody asks what was there before."""

    name: str
    context: Context

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out = [(time, key, row, None) for time, key, row in batch if key is not None]
        if len(out) < len(batch):
            _report_keyless(self.name, self.context, batch)
        return out


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """A table that remembers."""

    name: str
    context: Context
    rows: Store
    nested: bool
    """The key holds lists or maps, which no mapping takes as they are."""

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        rows, nested, out = self.rows, self.nested, []
        for time, key, row in batch:
            if key is None:
                continue
            found = hashable(key) if nested else key
            out.append((time, key, row, rows.get(found)))
            if row is None:
                rows.pop(found, None)
            else:
                rows[found] = row
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
        return Events()
    if not old:
        return Changes(node.name, context)
    return KeptChanges(node.name, context, context.store("rows"), any(is_nested(f.type) for f in node.relation.key))
