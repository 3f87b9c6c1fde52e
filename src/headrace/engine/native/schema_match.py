"""Maps the columns of a topic with a schema to a plan's columns, in the types of `sparksql.column_types`.

Names are matched case-insensitively, including fields of structs. A type must be the declared one, or a narrower one.
Everything is vectorised: single rows are not inspected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from headrace.contracts import Topic
from headrace.engine.sparksql.column_types import column_type
from headrace.plan import types as ty
from headrace.plan.analysis.schema_match import match_columns
from headrace.schema import WIDER, Field


def match_names(declared: Sequence[Field], topic: Topic, whose: str) -> dict[str, str]:
    """The name of the topic's column by declared column; raises SchemaMismatch with all differences."""
    matches = match_columns(declared, topic, whose, _is_readable_as)
    return {name: column.name for name, column in matches.items()}


def same_fields(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Whether all nested structs have the same fields in the same order, as required for writing."""
    if ty.is_struct(actual):
        names = [[field.name.upper() for field in kind] for kind in (actual, declared)]
        return names[0] == names[1] and all(same_fields(a.type, b.type) for a, b in zip(actual, declared, strict=True))
    pairs = [(actual.field(i).type, declared.field(i).type) for i in range(actual.num_fields)]
    return all(same_fields(*pair) for pair in pairs)


def _is_readable_as(actual: pa.DataType, declared: pa.DataType) -> bool:
    if actual == declared or (actual, declared) in WIDER:
        return True
    if ty.is_array(actual) and ty.is_array(declared):
        return _is_readable_as(actual.value_type, declared.value_type)
    if ty.is_map(actual) and ty.is_map(declared):
        return _is_readable_as(actual.key_type, declared.key_type) and _is_readable_as(
            actual.item_type, declared.item_type
        )
    if ty.is_struct(actual) and ty.is_struct(declared):
        fields = _field_types(actual)
        return all(f.name.upper() in fields and _is_readable_as(fields[f.name.upper()], f.type) for f in declared)
    return False


def _field_types(kind: pa.DataType) -> Mapping[str, pa.DataType]:
    return {field.name.upper(): field.type for field in kind}


def to_column_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts a column of the log to the column type of the declared type."""
    if not ty.is_nested(kind):
        return array.cast(kind).cast(column_type(kind))
    if array.offset:
        array = array.take(pa.array(np.arange(len(array))))  # Arrow cannot build nested arrays from slices
    nulls = array.is_null() if array.null_count else None
    if ty.is_struct(kind):
        places = {field.name.upper(): place for place, field in enumerate(array.type)}
        parts = [to_column_type(array.field(places[f.name.upper()]), f.type) for f in kind]
        return pa.StructArray.from_arrays(parts, fields=list(column_type(kind)), mask=nulls)
    if ty.is_map(kind):
        entry = column_type(kind).value_type
        parts = [to_column_type(array.keys, kind.key_type), to_column_type(array.items, kind.item_type)]
        items: pa.Array = pa.StructArray.from_arrays(parts, fields=list(entry))
    else:
        items = to_column_type(array.values, kind.value_type)
    return pa.ListArray.from_arrays(array.offsets, items, column_type(kind), mask=nulls)
