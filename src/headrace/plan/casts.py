"""CAST: which types convert to which, and how values are converted.

As in ksqlDB: integers are truncated to the smaller type's bits, fractions are truncated toward zero, decimals round
half up and fail when they do not fit, text is formatted as Java does. Nested types are cast item by item. A cast that
fails raises; a null inside an array, map or struct stays null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

import pyarrow as pa

from headrace.formats.java_numbers import decimal_text, double_text
from headrace.plan import iso_datetime as cal
from headrace.plan.scalar_operations import EXACT, double_as_decimal, wrap_bigint, wrap_int
from headrace.plan.types import (
    BIGINT,
    BIGINT_MAX,
    BIGINT_MIN,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INT_MAX,
    INT_MIN,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    fields,
    is_array,
    is_decimal,
    is_map,
    is_struct,
)

Caster = Callable[[Any], Any]


def identity(value: Any) -> Any:
    """The cast of a value that already has the right form."""
    return value


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    return caster(source, target) is not None


@cache
def caster(source: pa.DataType, target: pa.DataType) -> Caster | None:
    """Returns the function from one type's values to the other's, never called with null; None if there is no such
    cast.
    """
    if source in (target, NULL):
        return identity
    if target == STRING:
        return text_writer(source)
    if is_decimal(target):
        return _to_decimal(source, target)
    if is_decimal(source):
        return _FROM_DECIMAL.get(target)
    for fits, cast in ((is_array, _array), (is_map, _map), (is_struct, _struct)):
        if fits(source) and fits(target):
            return cast(source, target)
    return _PLAIN.get((source, target))


# -- numbers --------------------------------------------------------------------------------------------------------


def _to_int(value: int | Decimal) -> int:
    return wrap_int(int(value))


def _to_bigint(value: Decimal) -> int:
    return wrap_bigint(int(value))


def _double_to(least: int, most: int) -> Callable[[float], int]:
    """Java's rule: toward zero, NaN is 0, values out of range become the nearest bound."""

    def cut(value: float) -> int:
        if math.isnan(value):
            return 0
        return int(min(max(value, least), most))

    return cut


def _decimal_in(text: str) -> Decimal:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text.strip(), re.ASCII):
        raise ValueError(f"{text!r} is not a number")
    return Decimal(text.strip())


_READ_DECIMAL: dict[pa.DataType, Callable[[Any], Decimal]] = {
    INT: Decimal,
    BIGINT: Decimal,
    DOUBLE: double_as_decimal,
    STRING: _decimal_in,
}


def _to_decimal(source: pa.DataType, target: pa.DataType) -> Caster | None:
    read = identity if is_decimal(source) else _READ_DECIMAL.get(source)
    return None if read is None else _fitter(read, target.precision, target.scale)


def _fitter(read: Caster, precision: int, scale: int) -> Caster:
    unit = Decimal((0, (1,), -scale))
    limit = Decimal((0, (1,), precision - scale))

    def fit(value: Any) -> Decimal:
        number: Decimal = read(value)
        try:
            rounded = EXACT.quantize(number, unit)
        except InvalidOperation:
            rounded = limit
        if not -limit < rounded < limit:
            raise ValueError(f"{number} does not fit DECIMAL({precision}, {scale})")
        return rounded

    return fit


# -- text -----------------------------------------------------------------------------------------------------------

_TEXT: dict[pa.DataType, Caster] = {
    BOOLEAN: lambda value: "true" if value else "false",
    INT: str,
    BIGINT: str,
    DOUBLE: double_text,
    STRING: identity,
    DATE: cal.format_date,
    TIME: cal.format_time,
    TIMESTAMP: cal.format_timestamp,
}
_YES = re.compile(r"t|tr|tru|true|y|ye|yes", re.IGNORECASE)


def text_writer(kind: pa.DataType) -> Caster | None:
    """Returns the formatter of a type's values; lists, maps and structs as `toString` of Java and Connect."""
    if is_decimal(kind):
        return decimal_text
    if is_array(kind):
        return _list_text(kind)
    if is_map(kind):
        return _map_text(kind)
    return _struct_text(kind) if is_struct(kind) else _TEXT.get(kind)


def _nullable_text(kind: pa.DataType) -> Caster | None:
    text = text_writer(kind)
    return text and (lambda value: "null" if value is None else text(value))


def _list_text(kind: pa.DataType) -> Caster | None:
    item = _nullable_text(kind.value_type)
    return item and (lambda values: f"[{', '.join(map(item, values))}]")


def _map_text(kind: pa.DataType) -> Caster | None:
    key, item = _nullable_text(kind.key_type), _nullable_text(kind.item_type)
    if key is None or item is None:
        return None
    return lambda values: f"{{{', '.join(f'{key(k)}={item(v)}' for k, v in values.items())}}}"


def _struct_text(kind: pa.DataType) -> Caster | None:
    texts = {name: text_writer(inner) for name, inner in fields(kind).items()}
    known = {name: text for name, text in texts.items() if text is not None}
    if len(known) < len(texts):
        return None
    # Connect leaves out fields that are null.
    parts = lambda value: (f"{n}={text(value[n])}" for n, text in known.items() if value.get(n) is not None)  # noqa: E731
    return lambda value: f"Struct{{{','.join(parts(value))}}}"


def _integer_in(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", text.strip(), re.ASCII) or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


def _double_in(text: str) -> float:
    value = float(_decimal_in(text))
    if math.isinf(value):
        raise ValueError(f"{text!r} is too large for a DOUBLE")
    return value


# -- nested values --------------------------------------------------------------------------------------------------


def _nullable(source: pa.DataType, target: pa.DataType) -> Caster | None:
    cast = caster(source, target)
    if cast is None or cast is identity:
        return cast
    return lambda value: None if value is None else cast(value)


def _array(source: pa.DataType, target: pa.DataType) -> Caster | None:
    item = _nullable(source.value_type, target.value_type)
    return item and (lambda values: [item(value) for value in values])


def _map(source: pa.DataType, target: pa.DataType) -> Caster | None:
    key = _nullable(source.key_type, target.key_type)
    item = _nullable(source.item_type, target.item_type)
    if key is None or item is None:
        return None
    return lambda values: {key(k): item(v) for k, v in values.items()}


def _struct(source: pa.DataType, target: pa.DataType) -> Caster | None:
    """Casts fields by name; a field that the source lacks is null, one that the target lacks is dropped."""
    known = fields(source)
    casts = {name: _nullable(known.get(name, NULL), kind) for name, kind in fields(target).items()}
    fine = {name: cast for name, cast in casts.items() if cast is not None}
    if len(fine) < len(casts):
        return None
    return lambda value: {name: cast(value.get(name)) for name, cast in fine.items()}


# -- which types convert to which -----------------------------------------------------------------------------------

_FROM_DECIMAL: dict[pa.DataType, Caster] = {INT: _to_int, BIGINT: _to_bigint, DOUBLE: float}
_PLAIN: dict[tuple[pa.DataType, pa.DataType], Caster] = {
    (INT, BIGINT): identity,
    (INT, DOUBLE): float,
    (BIGINT, INT): _to_int,
    (BIGINT, DOUBLE): float,
    (DOUBLE, INT): _double_to(INT_MIN, INT_MAX),
    (DOUBLE, BIGINT): _double_to(BIGINT_MIN, BIGINT_MAX),
    (STRING, BOOLEAN): lambda text: _YES.fullmatch(text.strip()) is not None,
    (STRING, INT): _integer_in(INT_MIN, INT_MAX),
    (STRING, BIGINT): _integer_in(BIGINT_MIN, BIGINT_MAX),
    (STRING, DOUBLE): _double_in,
    (STRING, DATE): cal.parse_date,
    (STRING, TIME): cal.parse_time,
    (STRING, TIMESTAMP): cal.parse_timestamp,
    (DATE, TIMESTAMP): lambda days: days * cal.DAY_MS,
    (TIMESTAMP, DATE): lambda at: at // cal.DAY_MS,
    (TIMESTAMP, TIME): lambda at: at % cal.DAY_MS,
}
