"""Columns and the values in them. The internal form of dates and times is an integer (see `primitives`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def plain(kind: pa.DataType) -> pa.DataType:
    """The type with integers in place of dates and times."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain(f.type)) for f in kind])
    return kind


def column_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Converted values as a column."""
    return pa.array(values, plain(kind)).cast(kind)


def values_of(column: pa.Array) -> list[Any]:
    """The internal form of a column's values."""
    return column.cast(plain(column.type)).to_pylist()


def valid_texts(payloads: pa.BinaryArray) -> tuple[pa.StringArray, np.ndarray]:
    """Payloads as text, and the indexes of those that are not UTF-8 (null in the text)."""
    try:
        return payloads.cast(pa.string()), np.zeros(0, np.int64)
    except pa.ArrowInvalid:
        texts = [_utf8(p) for p in payloads.to_pylist()]
        array = pa.array(texts, pa.string())
        bad = pc.and_(array.is_null(), payloads.is_valid())
        return array, np.flatnonzero(bad.to_numpy(zero_copy_only=False))


def _utf8(payload: bytes | None) -> str | None:
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None
