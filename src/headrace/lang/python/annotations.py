"""Maps Python annotations to types of the plan, and converts values between user functions and the chain.

| annotation | type | | annotation | type |
|---|---|---|---|---|
| `int` | BIGINT | | `datetime` | TIMESTAMP, with UTC |
| `float` | DOUBLE | | `date`, `time` | DATE, TIME |
| `str`, `bytes`, `bool` | STRING, BYTES, BOOLEAN | | `list[T]` | ARRAY<T> |
| `Annotated[Decimal, "DECIMAL(10, 2)"]` | DECIMAL(10, 2) | | `dict[str, T]` | MAP<STRING, T> |
| `Annotated[int, "INT"]` | INT | | a dataclass | STRUCT, with its fields |

`T | None` accepts null; a function without such a parameter is not called if an argument is null.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.errors import BadPython
from headrace.lang.ksql.analyzer.types import plan_type
from headrace.lang.python.expressions import errors_at_call, written_type
from headrace.plan import types as t

Convert = Callable[[Any], Any]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_ZERO = _EPOCH.date()
_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True)
class TypeMapping:
    """A type of the plan; `inward` converts chain values to Python values, `outward` the reverse, where they differ.

    `outward` also checks the value: a function that returns text for an `int` fails at once.
    """

    type: pa.DataType
    outward: Convert
    inward: Convert | None = None
    optional: bool = False

    def read(self, value: Any) -> Any:
        return value if value is None or self.inward is None else self.inward(value)

    def write(self, value: Any) -> Any:
        return None if value is None else self.outward(value)


def type_mapping(annotation: Any, where: str) -> TypeMapping:
    """Returns the type of an annotation; `where` appears in the error if it is unsupported."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(arguments, where)
    if origin in (typing.Union, types.UnionType):
        return _optional(arguments, where)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is list:
        return _list(type_mapping(arguments[0], where))
    if origin is dict:
        return _dict(type_mapping(arguments[0], where), type_mapping(arguments[1], where))
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _struct(annotation, where)
    raise _unknown(annotation, where)


def sql_type(text: str) -> pa.DataType:
    """Parses a KSQL type."""
    with errors_at_call():
        return plan_type(written_type(text), {})


def mapping_of_type(kind: pa.DataType) -> TypeMapping:
    """Returns the mapping of a plan type: structs are dicts."""
    if t.is_decimal(kind):
        return TypeMapping(kind, _decimal(kind))
    if t.is_array(kind):
        return _list(mapping_of_type(kind.value_type))
    if t.is_map(kind):
        return _dict(mapping_of_type(kind.key_type), mapping_of_type(kind.item_type))
    if t.is_struct(kind):
        return _dict_struct(kind)
    return _BY_TYPE[kind]


# -- plain values ---------------------------------------------------------------------------------------------------


def _exact_type(python_type: type, kind: pa.DataType) -> Convert:
    def check(value: Any) -> Any:
        if type(value) is not python_type:
            raise TypeError(f"{value!r} is not a valid {t.type_text(kind)}")
        return value

    return check


def _integer(kind: pa.DataType, low: int, high: int) -> Convert:
    check = _exact_type(int, kind)

    def bounded(value: Any) -> int:
        if not low <= check(value) <= high:
            raise OverflowError(f"{value} is out of range for {t.type_text(kind)}")
        return value

    return bounded


def _float(value: Any) -> float:
    if type(value) is int:
        return float(value)
    return _exact_type(float, t.DOUBLE)(value)


def _decimal(kind: pa.DataType) -> Convert:
    unit = Decimal(1).scaleb(-kind.scale)

    def fitted(value: Any) -> Decimal:
        fit = Decimal(value).quantize(unit)
        if len(fit.as_tuple().digits) > kind.precision:
            raise OverflowError(f"{value} is out of range for {t.type_text(kind)}")
        return fit

    return fitted


def _milliseconds(value: dt.datetime) -> int:
    moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
    return (moment - _EPOCH) // _MILLISECOND


def _time(ms: int) -> dt.time:
    return (_EPOCH + ms * _MILLISECOND).time()


def _of_day(value: dt.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


_PLAIN: dict[Any, TypeMapping] = {
    bool: TypeMapping(t.BOOLEAN, _exact_type(bool, t.BOOLEAN)),
    int: TypeMapping(t.BIGINT, _integer(t.BIGINT, t.BIGINT_MIN, t.BIGINT_MAX)),
    float: TypeMapping(t.DOUBLE, _float),
    str: TypeMapping(t.STRING, _exact_type(str, t.STRING)),
    bytes: TypeMapping(t.BYTES, _exact_type(bytes, t.BYTES)),
    dt.datetime: TypeMapping(t.TIMESTAMP, _milliseconds, lambda ms: _EPOCH + ms * _MILLISECOND),
    dt.date: TypeMapping(t.DATE, lambda day: (day - _DAY_ZERO).days, lambda days: _DAY_ZERO + dt.timedelta(days)),
    dt.time: TypeMapping(t.TIME, _of_day, _time),
}
_INT = TypeMapping(t.INT, _integer(t.INT, t.INT_MIN, t.INT_MAX))
_BY_TYPE = {**{known.type: known for known in _PLAIN.values()}, t.INT: _INT}

# -- nested values --------------------------------------------------------------------------------------------------


def _list(item: TypeMapping) -> TypeMapping:
    inward = None if item.inward is None else lambda values: [item.read(value) for value in values]
    return TypeMapping(t.array(item.type), lambda values: [item.write(value) for value in values], inward)


def _dict(key: TypeMapping, item: TypeMapping) -> TypeMapping:
    plain = key.inward is None and item.inward is None
    return TypeMapping(
        t.map_of(key.type, item.type),
        lambda values: {key.write(k): item.write(v) for k, v in values.items()},
        None if plain else lambda values: {key.read(k): item.read(v) for k, v in values.items()},
    )


def _struct(kind: type, where: str) -> TypeMapping:
    hints = typing.get_type_hints(kind, include_extras=True)
    parts = {field.name: type_mapping(hints[field.name], where) for field in dataclasses.fields(kind)}
    return TypeMapping(
        t.struct((name.upper(), part.type) for name, part in parts.items()),
        lambda value: {name.upper(): part.write(getattr(value, name)) for name, part in parts.items()},
        lambda value: kind(**{name: part.read(value[name.upper()]) for name, part in parts.items()}),
    )


def _dict_struct(kind: pa.DataType) -> TypeMapping:
    parts = {name: mapping_of_type(part) for name, part in t.fields(kind).items()}
    return TypeMapping(
        kind,
        lambda value: {name: part.write(value.get(name)) for name, part in parts.items()},
        lambda value: {name: part.read(value[name]) for name, part in parts.items()},
    )


# -- typing constructs ----------------------------------------------------------------------------------------------


def _annotated(arguments: tuple[Any, ...], where: str) -> TypeMapping:
    inner, *notes = arguments
    named = next((note for note in notes if isinstance(note, str)), None)
    return type_mapping(inner, where) if named is None else mapping_of_type(sql_type(named))


def _optional(arguments: tuple[Any, ...], where: str) -> TypeMapping:
    others = [argument for argument in arguments if argument is not type(None)]
    if len(others) != 1 or len(others) == len(arguments):
        raise _unknown(" | ".join(map(str, arguments)), where)
    return dataclasses.replace(type_mapping(others[0], where), optional=True)


def _unknown(annotation: Any, where: str) -> BadPython:
    name = getattr(annotation, "__name__", str(annotation))
    return BadPython(
        f'"{name}" has no corresponding KSQL type',
        where=where,
        fix="use int, float, str, bool, bytes, datetime, date, time, list[...], dict[str, ...], a dataclass, or "
        'Annotated[Decimal, "DECIMAL(10, 2)"]',
    )
