"""Converts single JSON values to primitive column types, exactly.

Numbers never pass through floating point on their way to a decimal, nothing is rounded to fit, and a value that does
not fit raises `Mismatch`. Dates, times and timestamps become integers (days, ms of day, ms), so no value is outside of
the range of Python's calendar; text with a finer resolution is truncated to milliseconds.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.schema import type_name

Convert = Callable[[Any], Any]

NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")
NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}  # not in JSON
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
_DAY_MS = 86_400_000
_EXACT_FLOAT = 2**53  # from here on a float no longer identifies one integer
_FLOAT32_LIMIT = float.fromhex("0x1.ffffffp127")  # from here on a float32 would be infinite
_EXACTLY = decimal.Context(prec=400, traps=[decimal.Inexact, decimal.InvalidOperation])


class Mismatch(Exception):
    """A value that does not fit. `path` grows from the inside out while the error propagates."""

    def __init__(self, expected: str, got: Any) -> None:
        super().__init__(expected, got)
        self.expected = expected
        self.got = got
        self.path: list[str] = []

    def reason(self, column: str) -> str:
        where = "".join([column, *reversed(self.path)])
        return f'column "{where}": expected {self.expected}, got {_describe(self.got)}'


def convert_at(place: str, convert: Convert, value: Any) -> Any:
    """Converts a value inside another one, whose place an error will name; None stays None."""
    try:
        return None if value is None else convert(value)
    except Mismatch as error:
        error.path.append(place)
        raise


def _describe(value: Any) -> str:
    names = {bool: "boolean", str: "text", int: "number", float: "number", Decimal: "number", list: "array"}
    name = names.get(type(value), "object" if isinstance(value, dict) else "null")
    if name in ("array", "object", "null"):
        return name
    text = str(value) if len(str(value)) <= 40 else str(value)[:40] + "..."
    return f"{name} {text!r}" if name == "text" else f"{name} {text}"


def _boolean(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise Mismatch("boolean", value)

    return convert


def _integer(kind: pa.DataType) -> Convert:
    return _whole(type_name(kind), -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)


def _whole(expected: str, low: int, high: int) -> Convert:
    def convert(value: Any) -> int:
        number = float(value) if isinstance(value, Decimal) else value
        if isinstance(number, float) and number.is_integer() and abs(number) < _EXACT_FLOAT:
            number = int(number)
        if isinstance(number, int) and not isinstance(number, bool) and low <= number <= high:
            return number
        raise Mismatch(expected, value)

    return convert


def _double(kind: pa.DataType) -> Convert:
    limit = _FLOAT32_LIMIT if kind.bit_width == 32 else float("inf")

    def convert(value: Any) -> float:
        if isinstance(value, str) and value in NON_FINITE:
            return NON_FINITE[value]
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            number = float(value)
            if abs(number) < limit:
                return number
        raise Mismatch(type_name(kind), value)

    return convert


def _string(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> str:
        if isinstance(value, str):
            return value
        raise Mismatch("string", value)

    return convert


def _bytes(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> bytes:
        try:
            if isinstance(value, str):
                return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
        raise Mismatch("bytes as base64 text", value)

    return convert


def _decimal(kind: pa.DataType) -> Convert:
    step, zero = (Decimal(number).scaleb(-kind.scale) for number in (1, 0))

    def convert(value: Any) -> Decimal:
        is_number = NUMBER.fullmatch(value) if isinstance(value, str) else _is_exact_number(value)
        if not is_number:
            raise Mismatch(type_name(kind), value)
        number = Decimal(value)
        if number == 0:
            return zero
        if number.adjusted() < kind.precision - kind.scale:
            try:
                return _EXACTLY.quantize(number, step)
            except decimal.DecimalException:
                pass
        raise Mismatch(type_name(kind), value)

    return convert


def _is_exact_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _temporal(expected: str, low: int, high: int, from_text: Callable[[str], int]) -> Callable[[pa.DataType], Convert]:
    whole = _whole(expected, low, high)

    def convert(value: Any) -> int:
        try:
            return from_text(value) if isinstance(value, str) else whole(value)
        except (ValueError, OverflowError):
            raise Mismatch(expected, value) from None

    return lambda kind: convert


def _days(text: str) -> int:
    return (date.fromisoformat(text) - EPOCH.date()).days


def _ms_of_day(text: str) -> int:
    clock = time.fromisoformat(text)
    if clock.tzinfo is not None:
        raise ValueError("a time of day has no zone")
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1000 + clock.microsecond // 1000


def _ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MS


PRIMITIVES: dict[str, Callable[[pa.DataType], Convert]] = {
    "boolean": _boolean,
    "int": _integer,
    "bigint": _integer,
    "float": _double,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
    "decimal": _decimal,
    "date": _temporal("date as ISO text or days", -(2**31), 2**31 - 1, _days),
    "time": _temporal("time as ISO text or ms of day", 0, _DAY_MS - 1, _ms_of_day),
    "timestamp": _temporal("timestamp as ISO text or ms", -(2**63), 2**63 - 1, _ms),
}


def binary_double(kind: pa.DataType) -> Convert:
    """Unlike text, a binary format can represent NaN and the infinities."""
    read = PRIMITIVES["double"](kind)
    return lambda value: value if isinstance(value, float) and not math.isfinite(value) else read(value)
