"""Rows that come together as lines of JSON and go into a raw topic, read and written as columns.

What is appended is byte for byte what it would be line by line. Lines among which is one that Arrow does not read as
our own parser does, or that cannot be taken, are left to whoever goes through them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import Topic
from headrace.engine.payloads import Payloads, payloads
from headrace.formats.serde.json_columns import JsonColumns, can_read
from headrace.log.rows import binary
from headrace.plan import types as ty
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.hand import sink_of
from headrace.plan.nodes import Kind
from headrace.schema import Field

WORTH = 256
"""Fewer lines are read sooner one by one."""
_SAME = (ty.BOOLEAN, ty.INT, ty.BIGINT, ty.DOUBLE, ty.STRING)
"""Types that are in a column what they are in the chain."""


class Bulk:
    """For one source; `columns` are those of a line: the key's, the value's, and the row's time."""

    def __init__(self, source: SourceInfo, columns: Sequence[Field], made: Payloads) -> None:
        self._made = made
        self._json = JsonColumns(columns, bare=False)
        self._width = len(source.relation.key)
        self._needs_key = source.kind is Kind.TABLE

    def rows(self, lines: Sequence[bytes], now: int) -> pa.RecordBatch | None:
        """None if they must be gone through one by one."""
        if len(lines) < WORTH:
            return None
        columns, read = self._json.read(binary(lines))
        return self._written(columns, now) if read.all() else None

    def _written(self, columns: Sequence[pa.Array], now: int) -> pa.RecordBatch | None:
        *cells, given = columns
        keys, values = cells[: self._width], cells[self._width :]
        times = pc.fill_null(given, now)
        if pc.min(times).as_py() < 0 or (self._needs_key and any(key.null_count for key in keys)):
            return None
        every = pa.array(np.ones(len(times), bool))
        written = [self._made.keys(keys, every), self._made.values(values, every), times]
        return pa.RecordBatch.from_arrays(written, ["key", "value", "$occurred_at"])


def bulk_of(source: SourceInfo, columns: Sequence[Field], topic: Topic) -> Bulk | None:
    """None if all lines must be gone through one by one."""
    if not topic.schema.is_raw or source.system or not can_read(columns) or not all(map(_is_same, columns)):
        return None
    made = payloads(sink_of(source))
    return None if made is None else Bulk(source, columns, made)


def _is_same(column: Field) -> bool:
    return column.type in _SAME
