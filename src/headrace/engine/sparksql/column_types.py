"""The Spark column types that represent the chain's values.

They hold exactly the chain's values: a DATE is its days, a TIME and a TIMESTAMP their milliseconds, since Spark's own
types have other ranges. A map is a list of entries, since Spark's maps allow no null key. Columns and fields are named
by position (`v0`, `k0`, `f0`), since Spark's names are case-insensitive. `natural_sql` converts to Spark's own types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from headrace.plan import types as ty

Convert = Callable[[Any], Any]

MAX_DECIMAL_DIGITS = 38
"""Digits of Spark's largest decimal."""

_PLAIN = {ty.DATE: pa.int32(), ty.TIME: pa.int32(), ty.TIMESTAMP: pa.int64(), ty.NULL: pa.string()}


class NoColumnType(Exception):
    """Spark has no column type for such values."""


def column_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of the column."""
    if ty.is_decimal(kind) and kind.precision > MAX_DECIMAL_DIGITS:
        raise NoColumnType(
            f"a decimal of {kind.precision} digits has no place in Spark, where they have at most {MAX_DECIMAL_DIGITS}"
        )
    if ty.is_array(kind):
        return pa.list_(column_type(kind.value_type))
    if ty.is_map(kind):
        return pa.list_(_struct([kind.key_type, kind.item_type]))
    return _struct([field.type for field in kind]) if ty.is_struct(kind) else _PLAIN.get(kind, kind)


def _struct(kinds: Sequence[pa.DataType]) -> pa.DataType:
    return pa.struct([(f"f{i}", column_type(kind)) for i, kind in enumerate(kinds)])


def sql_type(kind: pa.DataType) -> str:
    """The column's type in SQL."""
    return from_arrow_type(column_type(kind)).simpleString()


def to_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Converts chain values to a column."""
    change = _outward(kind)
    return pa.array(values if change is None else [None if v is None else change(v) for v in values], column_type(kind))


def from_column(array: pa.Array, kind: pa.DataType) -> list[Any]:
    """Converts a column to chain values."""
    change = _inward(kind)
    items = array.to_pylist()
    return items if change is None else [None if item is None else change(item) for item in items]


@cache
def _outward(kind: pa.DataType) -> Convert | None:
    """Converts a chain value to what Arrow takes; None if it is the same."""
    if ty.is_array(kind):
        item = _outward(kind.value_type)
        return item and (lambda items: [_through(item, i) for i in items])
    if ty.is_map(kind):
        key, value = _outward(kind.key_type), _outward(kind.item_type)
        return lambda entries: [{"f0": _through(key, k), "f1": _through(value, v)} for k, v in entries.items()]
    if ty.is_struct(kind):
        fields = [(f"f{i}", field.name, _outward(field.type)) for i, field in enumerate(kind)]
        return lambda row: {place: _through(change, row.get(name)) for place, name, change in fields}
    return None


@cache
def _inward(kind: pa.DataType) -> Convert | None:
    if ty.is_array(kind):
        item = _inward(kind.value_type)
        return item and (lambda items: [_through(item, i) for i in items])
    if ty.is_map(kind):
        key, value = _inward(kind.key_type), _inward(kind.item_type)
        return lambda entries: {_through(key, e["f0"]): _through(value, e["f1"]) for e in entries}
    if ty.is_struct(kind):
        fields = [(f"f{i}", field.name, _inward(field.type)) for i, field in enumerate(kind)]
        return lambda row: {name: _through(change, row[place]) for place, name, change in fields}
    return None


def _through(change: Convert | None, value: Any) -> Any:
    return value if change is None or value is None else change(value)


# -- Spark's own types ----------------------------------------------------------------------------------------------

_NATURAL = {ty.DATE: "date_from_unix_date({0})", ty.TIMESTAMP: "timestamp_millis({0})"}


def natural_sql(text: str, kind: pa.DataType, depth: int = 0) -> str:
    """SQL that converts the column to Spark's own type; a TIME stays a number, in milliseconds."""
    item = f"x{depth}"
    if ty.is_array(kind):
        return f"transform({text}, {item} -> {natural_sql(item, kind.value_type, depth + 1)})"
    if ty.is_map(kind):
        key, value = (
            natural_sql(f"{item}.{f}", k, depth + 1) for f, k in (("f0", kind.key_type), ("f1", kind.item_type))
        )
        return f"map_from_entries(transform({text}, {item} -> struct({key}, {value})))"
    if ty.is_struct(kind):
        parts = [f"{natural_sql(f'{text}.f{i}', f.type, depth)} as {quote_name(f.name)}" for i, f in enumerate(kind)]
        return f"if({text} is null, null, struct({', '.join(parts)}))"
    return _NATURAL.get(kind, "{0}").format(text)


def quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
