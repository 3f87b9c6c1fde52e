"""Maps a query's results to the columns of a topic with a schema.

Names are matched case-insensitively, including fields of structs. A type must be the result's, or a wider one. A topic
for windows has a column WINDOWSTART, and optionally WINDOWEND; for sessions it must have both. Columns that no result
has get their defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa

from headrace.contracts import Topic
from headrace.plan import types as ty
from headrace.plan.analysis.schema_match import match_columns
from headrace.plan.chain.records import WINDOW_BOUND_FIELDS, needed_bounds
from headrace.plan.nodes import Sink
from headrace.plan.steps import Row
from headrace.schema import WIDER, Field

_FIX = "add the columns of the result to the topic, or write to another topic"


@dataclass(frozen=True)
class SinkColumn:
    """A column of the topic: its name and type, and the type of the results."""

    name: str
    kind: pa.DataType
    declared: pa.DataType

    def array(self, values: Sequence[Any]) -> pa.Array:
        array = pa.array(values, self.declared)
        if self.kind == self.declared:
            return array
        return _with_field_names(array, self.kind) if ty.is_nested(self.kind) else array.cast(self.kind)


@dataclass(frozen=True)
class SinkColumns:
    """Columns for the key's values, for the window's bounds if it has one, and for the row's values."""

    key: tuple[SinkColumn, ...]
    bounds: tuple[SinkColumn | None, ...]
    row: tuple[SinkColumn, ...]

    def columns(self, keys: Sequence[Row], rows: Sequence[Row]) -> dict[str, pa.Array]:
        """Arrays by name. The last part of a windowed key is its window's bounds."""
        windows = [key[-1] or (None, None) for key in keys] if self.bounds else ()
        parts = ((self.key, keys), (self.bounds, windows), (self.row, rows))
        return {
            column.name: column.array(list(map(itemgetter(place), values)))
            for columns, values in parts
            for place, column in enumerate(columns)
            if column is not None
        }


def sink_columns(sink: Sink, topic: Topic) -> SinkColumns | None:
    """The target columns; None if the topic is raw. Raises SchemaMismatch with all differences."""
    if topic.schema.is_raw:
        return None
    bounds = WINDOW_BOUND_FIELDS if sink.relation.window else ()
    required = [*sink.relation.columns, *needed_bounds(sink.relation)]
    match_columns(required, topic, sink.name, _takes, fix=_FIX)
    actual = {field.name.upper(): field for field in topic.schema.fields}

    def column(field: Field) -> SinkColumn | None:
        match = actual.get(field.name.upper())
        return match and SinkColumn(match.name, match.type, field.type)

    parts = (sink.relation.key, bounds, sink.relation.value)
    key, ends, row = (tuple(column(field) for field in fields) for fields in parts)
    return SinkColumns(key, ends, row)  # type: ignore[arg-type] - only WINDOWEND may be missing


def _takes(actual: pa.DataType, declared: pa.DataType) -> bool:
    return _same_storage(actual, declared) or _is_wider(actual, declared)


def _is_wider(actual: pa.DataType, declared: pa.DataType) -> bool:
    return (declared, actual) in WIDER and ty.is_number(declared)


def _same_storage(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Whether values are stored alike: structs have the same fields in the same order, in any case."""
    if actual.num_fields != declared.num_fields or actual.id != declared.id:
        return False
    if actual.num_fields == 0:
        return actual == declared
    pairs = [(actual.field(i), declared.field(i)) for i in range(actual.num_fields)]
    named = not ty.is_struct(actual) or all(a.name.upper() == b.name.upper() for a, b in pairs)
    return named and all(_same_storage(a.type, b.type) for a, b in pairs)


def _with_field_names(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values under other field names, which are not part of a serialized batch."""
    rows = pa.RecordBatch.from_arrays([array], ["it"])
    return pa.ipc.read_record_batch(rows.serialize(), pa.schema([("it", kind)])).column(0)
