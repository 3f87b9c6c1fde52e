"""Values of a typed topic as JSON, column by column.

| type | JSON |
|---|---|
| boolean, int, bigint, string | as they are |
| float, double | number; `"NaN"`, `"Infinity"`, `"-Infinity"` as text |
| decimal | text, which keeps every digit |
| bytes | text in base64 |
| date | text, `2024-02-29` (so that it can be told from a timestamp when a column is widened) |
| time | milliseconds since midnight |
| timestamp | milliseconds since 1970 UTC |
| array | array |
| struct | object |
| map | object if the keys are strings, else an array of pairs |

Reading takes a little more than writing gives: times and timestamps also as ISO text, decimals also as numbers.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

# What building an Arrow array from values that do not fit may raise.
MISFIT = (ValueError, TypeError, OverflowError, ArithmeticError, KeyError, AttributeError, pa.ArrowException)

Convert = Callable[[Any], Any]


def to_json(column: pa.Array) -> list[Any]:
    """The values of a column as JSON has them."""
    for fits, encode in _ENCODERS:
        if fits(column.type):
            return encode(column)
    return column.to_pylist()


def from_json(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column from JSON values; raises one of `MISFIT` if a value does not fit."""
    convert = _converter(kind)
    return pa.array([None if v is None else convert(v) for v in values] if convert else values, kind)


def _floats(column: pa.Array) -> list[Any]:
    values = column.to_pylist()
    if pc.all(pc.is_finite(column), min_count=0).as_py() is not False:
        return values
    return [v if v is None or math.isfinite(v) else _NOT_FINITE[str(v)] for v in values]


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _base64(column: pa.Array) -> list[Any]:
    return [None if v is None else b64encode(v).decode() for v in column.to_pylist()]


def _dates(column: pa.Array) -> list[Any]:
    # Through Python's dates, which refuse years that ISO text could not be read back from.
    return [None if v is None else v.isoformat() for v in column.to_pylist()]


def _list(column: pa.Array) -> list[Any]:
    values, offsets = to_json(column.values), column.offsets.to_pylist()
    present = column.is_valid().to_pylist()
    return [values[offsets[i] : offsets[i + 1]] if there else None for i, there in enumerate(present)]


def _map(column: pa.Array) -> list[Any]:
    keys, items, offsets = to_json(column.keys), to_json(column.items), column.offsets.to_pylist()
    make = dict if kinds.is_string(column.type.key_type) else _pairs
    return [
        make(zip(keys[offsets[i] : offsets[i + 1]], items[offsets[i] : offsets[i + 1]], strict=True)) if there else None
        for i, there in enumerate(column.is_valid().to_pylist())
    ]


def _pairs(entries: Any) -> list[list[Any]]:
    return [list(entry) for entry in entries]


def _struct(column: pa.Array) -> list[Any]:
    names = [field.name for field in column.type]
    rows = zip(*(to_json(column.field(i)) for i in range(len(names))), strict=True)
    return [
        dict(zip(names, row, strict=True)) if there else None
        for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)
    ]


_ENCODERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]], ...] = (
    (kinds.is_floating, _floats),
    (kinds.is_decimal, lambda column: column.cast(pa.string()).to_pylist()),
    (kinds.is_binary, _base64),
    (kinds.is_date32, _dates),
    (kinds.is_time32, lambda column: column.cast(pa.int32()).to_pylist()),
    (kinds.is_timestamp, lambda column: column.cast(pa.int64()).to_pylist()),
    (kinds.is_map, _map),
    (kinds.is_list, _list),
    (kinds.is_struct, _struct),
)


@cache
def _converter(kind: pa.DataType) -> Convert | None:
    """From a JSON value to what Arrow takes; None where Arrow takes, and checks, the JSON value itself."""
    return next((make(kind) for fits, make in _CONVERTERS if fits(kind)), None)


def _each(kind: pa.DataType) -> Convert:
    convert = _converter(kind) or (lambda value: value)
    return lambda value: None if value is None else convert(value)


def _to_float(value: Any) -> float:
    if isinstance(value, bool) or (isinstance(value, str) and value not in _NOT_FINITE.values()):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _to_decimal(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is no number")
    return Decimal(repr(value) if isinstance(value, float) else value)


def _to_timestamp(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    parsed = datetime.fromisoformat(value)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _to_list(kind: pa.DataType) -> Convert:
    convert = _each(kind.value_type)
    return lambda value: [convert(item) for item in _checked(value, list)]


def _to_map(kind: pa.DataType) -> Convert:
    key, item = _each(kind.key_type), _each(kind.item_type)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        entries = value.items() if isinstance(value, dict) else _checked(value, list)
        return [(key(k), item(v)) for k, v in entries]

    return convert


def _to_struct(kind: pa.DataType) -> Convert:
    fields: Mapping[str, Convert] = {field.name: _each(field.type) for field in kind}

    def convert(value: Any) -> dict[str, Any]:
        strange = _checked(value, dict).keys() - fields.keys()
        if strange:
            raise ValueError(f"unknown fields: {', '.join(sorted(strange))}")
        return {name: each(value.get(name)) for name, each in fields.items()}

    return convert


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Convert]], ...] = (
    (kinds.is_floating, lambda kind: _to_float),
    (kinds.is_decimal, lambda kind: _to_decimal),
    (kinds.is_string, lambda kind: lambda value: _checked(value, str)),
    (kinds.is_binary, lambda kind: lambda value: b64decode(_checked(value, str), validate=True)),
    (kinds.is_date32, lambda kind: date.fromisoformat),
    (kinds.is_time32, lambda kind: lambda value: time.fromisoformat(value) if isinstance(value, str) else value),
    (kinds.is_timestamp, lambda kind: _to_timestamp),
    (kinds.is_map, _to_map),
    (kinds.is_list, _to_list),
    (kinds.is_struct, _to_struct),
)
