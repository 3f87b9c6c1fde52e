"""The types of a plan: names for Arrow types, and the Python value of each in the chain.

| type | value in the chain |
|---|---|
| BOOLEAN | bool |
| INT, BIGINT | int, always inside the type's range: arithmetic wraps as in Java |
| DOUBLE | float |
| DECIMAL(p, s) | decimal.Decimal with exactly `s` digits after the point |
| STRING, BYTES | str, bytes |
| DATE | int, days since 1970 |
| TIME | int, milliseconds of the day |
| TIMESTAMP | int, milliseconds since 1970 (UTC) |
| ARRAY<T> | list |
| MAP<K, V> | dict |
| STRUCT<...> | dict by field name, with every field |

None is null for every type. `NULL` is the type of a bare NULL, and fits everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

BOOLEAN = pa.bool_()
INT = pa.int32()
BIGINT = pa.int64()
DOUBLE = pa.float64()
STRING = pa.string()
BYTES = pa.binary()
DATE = pa.date32()
TIME = pa.time32("ms")
TIMESTAMP = pa.timestamp("ms", "UTC")
NULL = pa.null()

_NAMES: Mapping[pa.DataType, str] = {
    BOOLEAN: "BOOLEAN",
    INT: "INTEGER",
    BIGINT: "BIGINT",
    DOUBLE: "DOUBLE",
    STRING: "STRING",
    BYTES: "BYTES",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
}

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
BIGINT_MIN, BIGINT_MAX = -(1 << 63), (1 << 63) - 1
MAX_PRECISION = 76
"""Arrow's widest decimal; ksqlDB has no limit."""


def decimal(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def array(item: pa.DataType) -> pa.DataType:
    return pa.list_(item)


def map_of(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    return pa.map_(key, value)


def struct(fields: Iterable[tuple[str, pa.DataType]]) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in fields])


is_decimal = pa.types.is_decimal
is_array = pa.types.is_list
is_map = pa.types.is_map
is_struct = pa.types.is_struct


def is_number(kind: pa.DataType) -> bool:
    return kind in (INT, BIGINT, DOUBLE) or is_decimal(kind)


def is_fixed_size(kind: pa.DataType) -> bool:
    """Whether all values take about as much memory: not text, bytes, or what contains other values."""
    return not (kind in (STRING, BYTES) or is_nested(kind))


def is_nested(kind: pa.DataType) -> bool:
    return is_array(kind) or is_map(kind) or is_struct(kind)


def fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    """A struct's fields by name, in order."""
    return {field.name: field.type for field in kind}


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """Returns the decimal type that can hold every value of an integer or decimal type."""
    if kind == INT:
        return decimal(10, 0)
    return decimal(19, 0) if kind == BIGINT else kind


def wider_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the number type that both widen to: INT < BIGINT < DECIMAL < DOUBLE; None if one is no number."""
    if not (is_number(left) and is_number(right)):
        return None
    if DOUBLE in (left, right):
        return DOUBLE
    if is_decimal(left) or is_decimal(right):
        left, right = as_decimal(left), as_decimal(right)
        scale = max(left.scale, right.scale)
        return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    return BIGINT if BIGINT in (left, right) else INT


def type_text(kind: pa.DataType, null: str = "NULL") -> str:
    """Renders a type as ksqlDB displays it: `DECIMAL(4, 2)`, `ARRAY<STRING>`, ``STRUCT<`A` INTEGER>``."""
    if kind == NULL:
        return null
    if kind in _NAMES:
        return _NAMES[kind]
    if is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if is_array(kind):
        return f"ARRAY<{type_text(kind.value_type, null)}>"
    if is_map(kind):
        return f"MAP<{type_text(kind.key_type, null)}, {type_text(kind.item_type, null)}>"
    if is_struct(kind):
        inner = (f"{identifier_text(name)} {type_text(part, null)}" for name, part in fields(kind).items())
        return f"STRUCT<{', '.join(inner)}>"
    return str(kind).upper()


def primitive_type(name: str) -> pa.DataType:
    """Returns the primitive type with that `type_text`; NULL for any other text."""
    return next((kind for kind, text in _NAMES.items() if text == name), NULL)


def identifier_text(name: str) -> str:
    """Quotes a name with backticks."""
    return "`" + name.replace("`", "``") + "`"
