"""How values of the chain lie in a view's columns: exactly, and in their own order where they have one.

| type | lies as |
|---|---|
| BOOLEAN, INT, BIGINT, DATE, TIME, TIMESTAMP | a whole number |
| DOUBLE | a real number, -0.0 too; NaN, which SQLite does not know, as a mark that no number equals |
| STRING | text, ordered by code point: as the chain compares, and as Java does but for characters beyond U+FFFF |
| BYTES | bytes |
| DECIMAL | its digits without the point: a whole number up to 18 of them, else 33 bytes in the order of the numbers |
| ARRAY, MAP, STRUCT | bytes of `plan.encoding`, which name their version |

Null is null, but in a key: there SQLite takes nulls for different from each other, so a mark of a kind that the column
never holds stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.plan import types as ty
from headrace.plan.encoding import decode, encode
from headrace.plan.operations import EXACT
from headrace.schema import Field

Convert = Callable[[Any], Any]

_NAN = b"NaN"
_WHOLE = 18
"""Digits that always fit 64 bits."""
_MIDDLE, _WIDTH = 1 << 263, 33
_ORDERED = (ty.INT, ty.BIGINT, ty.DOUBLE, ty.STRING, ty.BYTES, ty.BOOLEAN, ty.DATE, ty.TIME, ty.TIMESTAMP)
_IN_BYTES = (ty.STRING, ty.BYTES)


class NotSought(Exception):
    """No value of the column can be looked up by this one."""


@dataclass(frozen=True)
class Form:
    """How values of a type lie, nulls aside; None is: as they are."""

    into: Convert | None = None
    out: Convert | None = None


def form_of(kind: pa.DataType) -> Form:
    if kind == ty.DOUBLE:
        return Form(lambda value: _NAN if value != value else value, lambda value: math.nan if value == _NAN else value)
    if kind == ty.BOOLEAN:
        return Form(None, bool)
    if ty.is_decimal(kind):
        return _decimals(kind.precision, kind.scale)
    return Form(encode, decode) if ty.is_nested(kind) else Form()


def _decimals(precision: int, scale: int) -> Form:
    def digits(value: Decimal) -> int:
        return int(EXACT.scaleb(value, scale))

    def number(value: int) -> Decimal:
        return EXACT.scaleb(Decimal(value), -scale)

    if precision <= _WHOLE:
        return Form(digits, number)
    return Form(lambda value: _wide(digits(value)), lambda value: number(int.from_bytes(value, "big") - _MIDDLE))


def _wide(digits: int) -> bytes:
    return (digits + _MIDDLE).to_bytes(_WIDTH, "big")


def null_mark(kind: pa.DataType) -> Any:
    """What stands for null in a key: text among numbers, a number among text and bytes."""
    wide = ty.is_decimal(kind) and kind.precision > _WHOLE
    return 0 if kind in _IN_BYTES or ty.is_nested(kind) or wide else ""


class Columns:
    """Several columns: rows of theirs into what lies in the view, and back."""

    def __init__(
        self, fields: Sequence[Field], *, in_key: bool = False, form: Callable[[pa.DataType], Form] = form_of
    ) -> None:
        forms = [form(field.type) for field in fields]
        into, out = [form.into for form in forms], [form.out for form in forms]
        if in_key:
            marks = [null_mark(field.type) for field in fields]
            self.stored = _where_none(_converter(list(map(_marking, into, marks))), _converter(into))
            self.loaded = _converter(list(map(_unmarking, out, marks)))
        else:
            self.stored, self.loaded = (_converter([one and _or_null(one) for one in side]) for side in (into, out))


def _converter(converts: Sequence[Convert | None]) -> Convert:
    """All values of a row by their own function, in one expression: this is done for every row."""
    if not any(converts):
        return lambda row: row
    names = {f"c{i}": convert for i, convert in enumerate(converts) if convert}
    values = (f"c{i}(row[{i}]), " if convert else f"row[{i}], " for i, convert in enumerate(converts))
    return eval(f"lambda row: ({''.join(values)})", names)


def _where_none(with_nulls: Convert, without: Convert) -> Convert:
    return lambda row: with_nulls(row) if None in row else without(row)


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _marking(into: Convert | None, mark: Any) -> Convert:
    if into is None:
        return lambda value: mark if value is None else value
    return lambda value: mark if value is None else into(value)


def _unmarking(out: Convert | None, mark: Any) -> Convert:
    kind = type(mark)
    if out is None:
        return lambda value: None if type(value) is kind else value
    return lambda value: None if type(value) is kind else out(value)


def sought(kind: pa.DataType, value: Any) -> Any:
    """A constant of a condition as a column of the type is compared with it; refuses what would not be the same.

    Whole and real numbers are compared exactly with each other, here as there.
    """
    if ty.is_decimal(kind):
        return _sought_decimal(kind, value)
    if kind not in _ORDERED or isinstance(value, Decimal):
        raise NotSought(kind)
    return _NAN if value != value else value


def _sought_decimal(kind: pa.DataType, value: Any) -> Any:
    """Only what has no more digits after the point than the column."""
    if not isinstance(value, Decimal | int):
        raise NotSought(kind)
    digits = EXACT.scaleb(Decimal(value), kind.scale)
    whole = int(digits)
    if whole != digits or abs(whole) >= 1 << (63 if kind.precision <= _WHOLE else 255):
        raise NotSought(kind)
    return whole if kind.precision <= _WHOLE else _wide(whole)
