"""Python's types as those of the plan, and values on their way between a user's function and the chain.

| annotation | type | | annotation | type |
|---|---|---|---|---|
| `int` | BIGINT | | `datetime` | TIMESTAMP, with UTC |
| `float` | DOUBLE | | `date`, `time` | DATE, TIME |
| `str`, `bytes`, `bool` | STRING, BYTES, BOOLEAN | | `list[T]` | ARRAY<T> |
| `Annotated[Decimal, "DECIMAL(10, 2)"]` | DECIMAL(10, 2) | | `dict[str, T]` | MAP<STRING, T> |
| `Annotated[int, "INT"]` | INT | | a dataclass | STRUCT, with its fields |

`T | None` says that a null may come; a function whose parameters are all without it is not asked when one is null.
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
from headrace.lang.ksql.types import plan_type
from headrace.lang.python.expressions import refused_here, written_type
from headrace.plan import types as t

Convert = Callable[[Any], Any]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_ZERO = _EPOCH.date()
_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True)
class Translated:
    """A type of the plan; `inward` makes Python's value of the chain's, `outward` the other way, where they differ.

    `outward` also looks whether the value is one: a function that gives a text for an `int` must not get far.
    """

    type: pa.DataType
    outward: Convert
    inward: Convert | None = None
    optional: bool = False

    def read(self, value: Any) -> Any:
        return value if value is None or self.inward is None else self.inward(value)

    def write(self, value: Any) -> Any:
        return None if value is None else self.outward(value)


def translated(annotation: Any, where: str) -> Translated:
    """What an annotation means; `where` is said if it means nothing here."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(arguments, where)
    if origin in (typing.Union, types.UnionType):
        return _optional(arguments, where)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is list:
        return _list(translated(arguments[0], where))
    if origin is dict:
        return _dict(translated(arguments[0], where), translated(arguments[1], where))
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _struct(annotation, where)
    raise _unknown(annotation, where)


def sql_type(text: str) -> pa.DataType:
    """A type as KSQL writes it."""
    with refused_here():
        return plan_type(written_type(text), {})


def by_type(kind: pa.DataType) -> Translated:
    """The same from a type of the plan: structs come as dicts."""
    if t.is_decimal(kind):
        return Translated(kind, _decimal(kind))
    if t.is_array(kind):
        return _list(by_type(kind.value_type))
    if t.is_map(kind):
        return _dict(by_type(kind.key_type), by_type(kind.item_type))
    if t.is_struct(kind):
        return _dict_struct(kind)
    return _BY_TYPE[kind]


# -- plain values ---------------------------------------------------------------------------------------------------


def _checked(wanted: type, kind: pa.DataType) -> Convert:
    def check(value: Any) -> Any:
        if type(value) is not wanted:
            raise TypeError(f"{value!r} is no {t.type_text(kind)}")
        return value

    return check


def _integer(kind: pa.DataType, low: int, high: int) -> Convert:
    check = _checked(int, kind)

    def bounded(value: Any) -> int:
        if not low <= check(value) <= high:
            raise OverflowError(f"{value} is beyond {t.type_text(kind)}")
        return value

    return bounded


def _float(value: Any) -> float:
    if type(value) is int:
        return float(value)
    return _checked(float, t.DOUBLE)(value)


def _decimal(kind: pa.DataType) -> Convert:
    unit = Decimal(1).scaleb(-kind.scale)

    def fitted(value: Any) -> Decimal:
        fit = Decimal(value).quantize(unit)
        if len(fit.as_tuple().digits) > kind.precision:
            raise OverflowError(f"{value} is beyond {t.type_text(kind)}")
        return fit

    return fitted


def _milliseconds(value: dt.datetime) -> int:
    moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
    return (moment - _EPOCH) // _MILLISECOND


def _time(ms: int) -> dt.time:
    return (_EPOCH + ms * _MILLISECOND).time()


def _of_day(value: dt.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


_PLAIN: dict[Any, Translated] = {
    bool: Translated(t.BOOLEAN, _checked(bool, t.BOOLEAN)),
    int: Translated(t.BIGINT, _integer(t.BIGINT, t.BIGINT_MIN, t.BIGINT_MAX)),
    float: Translated(t.DOUBLE, _float),
    str: Translated(t.STRING, _checked(str, t.STRING)),
    bytes: Translated(t.BYTES, _checked(bytes, t.BYTES)),
    dt.datetime: Translated(t.TIMESTAMP, _milliseconds, lambda ms: _EPOCH + ms * _MILLISECOND),
    dt.date: Translated(t.DATE, lambda day: (day - _DAY_ZERO).days, lambda days: _DAY_ZERO + dt.timedelta(days)),
    dt.time: Translated(t.TIME, _of_day, _time),
}
_INT = Translated(t.INT, _integer(t.INT, t.INT_MIN, t.INT_MAX))
_BY_TYPE = {**{known.type: known for known in _PLAIN.values()}, t.INT: _INT}

# -- values of several ----------------------------------------------------------------------------------------------


def _list(item: Translated) -> Translated:
    inward = None if item.inward is None else lambda values: [item.read(value) for value in values]
    return Translated(t.array(item.type), lambda values: [item.write(value) for value in values], inward)


def _dict(key: Translated, item: Translated) -> Translated:
    plain = key.inward is None and item.inward is None
    return Translated(
        t.map_of(key.type, item.type),
        lambda values: {key.write(k): item.write(v) for k, v in values.items()},
        None if plain else lambda values: {key.read(k): item.read(v) for k, v in values.items()},
    )


def _struct(kind: type, where: str) -> Translated:
    hints = typing.get_type_hints(kind, include_extras=True)
    parts = {field.name: translated(hints[field.name], where) for field in dataclasses.fields(kind)}
    return Translated(
        t.struct((name.upper(), part.type) for name, part in parts.items()),
        lambda value: {name.upper(): part.write(getattr(value, name)) for name, part in parts.items()},
        lambda value: kind(**{name: part.read(value[name.upper()]) for name, part in parts.items()}),
    )


def _dict_struct(kind: pa.DataType) -> Translated:
    parts = {name: by_type(part) for name, part in t.fields(kind).items()}
    return Translated(
        kind,
        lambda value: {name: part.write(value.get(name)) for name, part in parts.items()},
        lambda value: {name: part.read(value[name]) for name, part in parts.items()},
    )


# -- typing's own ---------------------------------------------------------------------------------------------------


def _annotated(arguments: tuple[Any, ...], where: str) -> Translated:
    inner, *notes = arguments
    named = next((note for note in notes if isinstance(note, str)), None)
    return translated(inner, where) if named is None else by_type(sql_type(named))


def _optional(arguments: tuple[Any, ...], where: str) -> Translated:
    others = [argument for argument in arguments if argument is not type(None)]
    if len(others) != 1 or len(others) == len(arguments):
        raise _unknown(" | ".join(map(str, arguments)), where)
    return dataclasses.replace(translated(others[0], where), optional=True)


def _unknown(annotation: Any, where: str) -> BadPython:
    shown = getattr(annotation, "__name__", str(annotation))
    return BadPython(
        f'"{shown}" has no type in KSQL',
        where=where,
        fix="use int, float, str, bool, bytes, datetime, date, time, list[...], dict[str, ...], a dataclass, or "
        'Annotated[Decimal, "DECIMAL(10, 2)"]',
    )
