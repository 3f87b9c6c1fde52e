"""Java's natural order and equality for chain values, as sort keys and lookup keys.

Each function takes a type and returns the key function, or None where Python's own order or equality is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, isnan
from typing import Any

import pyarrow as pa

from headrace.plan.types import BYTES, DOUBLE, STRING, fields, is_array, is_map, is_nested, is_struct

Key = Callable[[Any], Any]

_SIGNED = bytes((code + 128) % 256 for code in range(256))


def _double_order(value: float) -> tuple[bool, float, float]:
    """NaN is the greatest, and minus zero less than zero."""
    return (True, 0.0, 0.0) if isnan(value) else (False, value, copysign(1.0, value))


def text_order(value: str) -> bytes:
    """By UTF-16 units, which is not the order of code points."""
    return value.encode("utf-16-be", "surrogatepass")


def _bytes_order(value: bytes) -> bytes:
    """Java's bytes are signed."""
    return value.translate(_SIGNED)


_ORDER: dict[pa.DataType, Key] = {DOUBLE: _double_order, STRING: text_order, BYTES: _bytes_order}


def order_key(kind: pa.DataType) -> Key | None:
    """Returns the key that sorts values of a type as `Comparable` does."""
    if is_nested(kind):
        raise TypeError("arrays, maps and structs have no order")
    return _ORDER.get(kind)


def equality_key(kind: pa.DataType) -> Key | None:
    """Returns the hashable key under which two values are equal if `equals` says so. Null equals null."""
    if kind == DOUBLE:
        return repr
    if is_array(kind):
        return _array_equality(kind)
    if is_map(kind):
        return _map_equality(kind)
    return _struct_equality(kind) if is_struct(kind) else None


def _same(value: Any) -> Any:
    return value


def _array_equality(kind: pa.DataType) -> Key:
    item = equality_key(kind.value_type) or _same
    return lambda value: None if value is None else tuple(map(item, value))


def _map_equality(kind: pa.DataType) -> Key:
    entry = equality_key(kind.item_type) or _same
    return lambda value: None if value is None else frozenset((key, entry(item)) for key, item in value.items())


def _struct_equality(kind: pa.DataType) -> Key:
    parts = [(name, equality_key(part) or _same) for name, part in fields(kind).items()]
    return lambda value: None if value is None else tuple(part(value[name]) for name, part in parts)
