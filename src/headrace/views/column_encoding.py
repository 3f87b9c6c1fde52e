"""Encodes the chain's values in a view's columns: exactly, and in their own order where they have one.

| type | stored as |
|---|---|
| BOOLEAN, INT, BIGINT, DATE, TIME, TIMESTAMP | an integer |
| DOUBLE | a floating-point number, -0.0 too; NaN, which SQLite does not support, as a marker that no number equals |
| STRING | text, ordered by code point: as in the chain, and as in Java except for characters beyond U+FFFF |
| BYTES | bytes |
| DECIMAL | its unscaled digits: an integer up to 18 digits, else 33 bytes that sort like the numbers |
| ARRAY, MAP, STRUCT | bytes of `plan.state_encoding`, which include their version |

Null is stored as null, except in a key: SQLite treats nulls in a key as distinct from each other, so a marker of a type
that the column never holds stands for null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.plan import types as ty
from headrace.plan.scalar_operations import EXACT
from headrace.plan.state_encoding import decode, encode
from headrace.schema import Field

Converter = Callable[[Any], Any]

_NAN = b"NaN"
_WHOLE = 18
"""Digits that always fit in 64 bits."""
_MIDDLE, _WIDTH = 1 << 263, 33
_ORDERED = (ty.INT, ty.BIGINT, ty.DOUBLE, ty.STRING, ty.BYTES, ty.BOOLEAN, ty.DATE, ty.TIME, ty.TIMESTAMP)
_IN_BYTES = (ty.STRING, ty.BYTES)


class NotSearchable(Exception):
    """The constant cannot be used to look up values of the column."""


@dataclass(frozen=True)
class ValueCodec:
    """How non-null values of a type are stored and loaded; None means unchanged."""

    into: Converter | None = None
    out: Converter | None = None


def codec_of(kind: pa.DataType) -> ValueCodec:
    if kind == ty.DOUBLE:
        return ValueCodec(
            lambda value: _NAN if value != value else value, lambda value: math.nan if value == _NAN else value
        )
    if kind == ty.BOOLEAN:
        return ValueCodec(None, bool)
    if ty.is_decimal(kind):
        return _decimals(kind.precision, kind.scale)
    return ValueCodec(encode, decode) if ty.is_nested(kind) else ValueCodec()


def _decimals(precision: int, scale: int) -> ValueCodec:
    def digits(value: Decimal) -> int:
        return int(EXACT.scaleb(value, scale))

    def number(value: int) -> Decimal:
        return EXACT.scaleb(Decimal(value), -scale)

    if precision <= _WHOLE:
        return ValueCodec(digits, number)
    return ValueCodec(lambda value: _wide(digits(value)), lambda value: number(int.from_bytes(value, "big") - _MIDDLE))


def _wide(digits: int) -> bytes:
    return (digits + _MIDDLE).to_bytes(_WIDTH, "big")


def null_marker(kind: pa.DataType) -> Any:
    """The value that stands for null in a key: text in number columns, a number in text and bytes columns."""
    wide = ty.is_decimal(kind) and kind.precision > _WHOLE
    return 0 if kind in _IN_BYTES or ty.is_nested(kind) or wide else ""


class ColumnCodec:
    """Converts rows of several columns to their stored form and back."""

    def __init__(
        self, fields: Sequence[Field], *, in_key: bool = False, form: Callable[[pa.DataType], ValueCodec] = codec_of
    ) -> None:
        forms = [form(field.type) for field in fields]
        into, out = [form.into for form in forms], [form.out for form in forms]
        if in_key:
            marks = [null_marker(field.type) for field in fields]
            self.stored = _where_none(_converter(list(map(_marking, into, marks))), _converter(into))
            self.loaded = _converter(list(map(_decoder_of_marked, out, marks)))
        else:
            self.stored, self.loaded = (_converter([one and _or_null(one) for one in side]) for side in (into, out))


def _converter(converts: Sequence[Converter | None]) -> Converter:
    """Converts all values of a row, each with its own function, in one generated expression: it runs for every row."""
    if not any(converts):
        return lambda row: row
    names = {f"c{i}": convert for i, convert in enumerate(converts) if convert}
    values = (f"c{i}(row[{i}]), " if convert else f"row[{i}], " for i, convert in enumerate(converts))
    return eval(f"lambda row: ({''.join(values)})", names)


def _where_none(with_nulls: Converter, without: Converter) -> Converter:
    return lambda row: with_nulls(row) if None in row else without(row)


def _or_null(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _marking(into: Converter | None, mark: Any) -> Converter:
    if into is None:
        return lambda value: mark if value is None else value
    return lambda value: mark if value is None else into(value)


def _decoder_of_marked(out: Converter | None, mark: Any) -> Converter:
    kind = type(mark)
    if out is None:
        return lambda value: None if type(value) is kind else value
    return lambda value: None if type(value) is kind else out(value)


def search_value(kind: pa.DataType, value: Any) -> Any:
    """Converts a condition's constant to the form a column of the type is compared with; raises if none is exact.

    Integers and floating-point numbers are compared exactly with each other, in SQLite as in the chain.
    """
    if ty.is_decimal(kind):
        return _sought_decimal(kind, value)
    if kind not in _ORDERED or isinstance(value, Decimal):
        raise NotSearchable(kind)
    return _NAN if value != value else value


def _sought_decimal(kind: pa.DataType, value: Any) -> Any:
    """Accepts only values with no more digits after the point than the column has."""
    if not isinstance(value, Decimal | int):
        raise NotSearchable(kind)
    digits = EXACT.scaleb(Decimal(value), kind.scale)
    whole = int(digits)
    if whole != digits or abs(whole) >= 1 << (63 if kind.precision <= _WHOLE else 255):
        raise NotSearchable(kind)
    return whole if kind.precision <= _WHOLE else _wide(whole)
