"""Converts between Protobuf messages and column values.

A scalar without presence cannot be null: null is written as its default, and read as that. Messages, and fields with
presence (`optional`, members of a oneof), are null when they are absent. Lists and maps are never null when read, and a
list cannot hold null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.errors import WrongType
from headrace.formats.column_types import kind_name
from headrace.formats.java_numbers import double_text
from headrace.formats.json.lenient import places
from headrace.formats.primitives import EPOCH, PRIMITIVES, Convert, Mismatch, binary_double
from headrace.formats.protobuf.schema import DATE, DECIMAL, TIME, TIMESTAMP

Fill = Callable[[Any, Any], None]
"""Puts a value, which is not None, into an existing message."""

_EPOCH_DAY = EPOCH.date()


# -- reading --------------------------------------------------------------------------------------------------------


def message_reader(columns: Mapping[str, pa.DataType], descriptor: Any) -> Callable[[Any], dict[str, Any]]:
    """A function from a message to column values: fields with the same name, in any case."""
    fields = {field.name: field for field in descriptor.fields}
    matches = zip(columns.items(), places(list(fields), list(columns)), strict=True)
    readers = [(name, _field_reader(kind, fields[at]) if at else None) for (name, kind), at in matches]

    def convert(message: Any) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for name, read in readers:
            try:
                row[name] = read(message) if read else None
            except Mismatch as error:
                error.path.append(f".{name}")
                raise
        return row

    return convert


def _field_reader(kind: pa.DataType, field: Any) -> Convert:
    name = field.name
    if field.is_repeated:
        return _repeated(kind, field)
    read = _item_reader(kind, field)
    if not field.has_presence:
        return lambda message: read(getattr(message, name))
    return lambda message: read(getattr(message, name)) if message.HasField(name) else None


def _repeated(kind: pa.DataType, field: Any) -> Convert:
    name = field.name
    if pa.types.is_list(kind):
        item = _item_reader(kind.value_type, field)
        return lambda message: [item(v) for v in getattr(message, name)]
    if pa.types.is_map(kind) and field.message_type is not None:
        entry = message_reader({"key": kind.key_type, "value": kind.item_type}, field.message_type)
        return lambda message: {e["key"]: e["value"] for e in map(entry, getattr(message, name))}
    return _refusing(kind)


def _item_reader(kind: pa.DataType, field: Any) -> Convert:
    descriptor = field.message_type
    if descriptor is None:
        return _scalar(kind, field)
    full_name = descriptor.full_name
    if full_name in _MESSAGES:
        return _MESSAGES[full_name](kind)
    if full_name.startswith("google.protobuf.") and full_name.endswith("Value"):
        inner = _scalar(kind, descriptor.fields_by_name["value"])
        return lambda wrapper: inner(wrapper.value)
    if not pa.types.is_struct(kind):
        return _refusing(kind)
    return message_reader({f.name: f.type for f in kind}, descriptor)


def _scalar(kind: pa.DataType, field: Any) -> Convert:
    if pa.types.is_nested(kind):
        return _refusing(kind)
    if pa.types.is_string(kind):
        return _text(field)
    if pa.types.is_binary(kind):
        return lambda value: value if isinstance(value, bytes) else _refusing(kind)(value)
    return binary_double(kind) if pa.types.is_float64(kind) else PRIMITIVES[kind_name(kind)](kind)


def _text(field: Any) -> Convert:
    names = {} if field.enum_type is None else {value.number: value.name for value in field.enum_type.values}

    def convert(value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bytes):
            raise Mismatch("string", value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return double_text(value) if isinstance(value, float) else names.get(value, str(value))

    return convert


def _refusing(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> Any:
        raise Mismatch(kind_name(kind), None)

    return convert


def _decimal(kind: pa.DataType) -> Convert:
    read = PRIMITIVES["decimal"](kind)

    def convert(value: Any) -> Decimal:
        if abs(value.scale) > 400 or len(value.value) > 200:
            raise Mismatch("decimal", None)
        return read(Decimal(f"{int.from_bytes(value.value, 'big', signed=True)}E{-value.scale}"))

    return convert


def _days(value: Any) -> int:
    try:
        return (date(value.year, value.month, value.day) - _EPOCH_DAY).days
    except (ValueError, OverflowError):
        raise Mismatch("date", f"{value.year}-{value.month}-{value.day}") from None


def _ms_of_day(value: Any) -> int:
    return ((value.hours * 60 + value.minutes) * 60 + value.seconds) * 1000 + value.nanos // 1_000_000


def _ms(value: Any) -> int:
    return value.seconds * 1000 + value.nanos // 1_000_000


def _temporal(name: str, number: Callable[[Any], int]) -> Callable[[pa.DataType], Convert]:
    def make(kind: pa.DataType) -> Convert:
        if kind_name(kind) != name:
            return _refusing(kind)
        read = PRIMITIVES[name](kind)
        return lambda value: read(number(value))

    return make


_MESSAGES: dict[str, Callable[[pa.DataType], Convert]] = {
    DECIMAL: lambda kind: _decimal(kind) if pa.types.is_decimal(kind) else _refusing(kind),
    DATE: _temporal("date", _days),
    TIME: _temporal("time", _ms_of_day),
    TIMESTAMP: _temporal("timestamp", _ms),
}


# -- writing --------------------------------------------------------------------------------------------------------


def message_filler(columns: Mapping[str, pa.DataType]) -> Callable[[Any, Mapping[str, Any]], None]:
    """A function that fills a message with column values by name."""
    fillers = [(name, _field_filler(name, kind)) for name, kind in columns.items()]

    def fill(message: Any, row: Mapping[str, Any]) -> None:
        for name, fill_field in fillers:
            value = row.get(name)
            if value is not None:
                fill_field(message, value)

    return fill


def _field_filler(name: str, kind: pa.DataType) -> Fill:
    if pa.types.is_list(kind):
        return _list_filler(name, kind.value_type)
    if pa.types.is_map(kind):
        return _map_filler(name, kind)
    inner = _message_filler(kind)
    if inner is None:
        return lambda message, value: setattr(message, name, value)

    def fill_field(message: Any, value: Any) -> None:
        part = getattr(message, name)
        part.SetInParent()
        inner(part, value)

    return fill_field


def _list_filler(name: str, kind: pa.DataType) -> Fill:
    inner = _message_filler(kind)

    def fill_field(message: Any, value: list[Any]) -> None:
        if None in value:
            raise WrongType(
                f'PROTOBUF does not support nulls in the array "{name}"', fix="remove the nulls with FILTER"
            )
        parts = getattr(message, name)
        if inner is None:
            parts.extend(value)
            return
        for item in value:
            inner(parts.add(), item)

    return fill_field


def _map_filler(name: str, kind: pa.DataType) -> Fill:
    fill = message_filler({"key": kind.key_type, "value": kind.item_type})

    def fill_field(message: Any, value: Any) -> None:
        entries = getattr(message, name)
        for k, v in value.items():
            fill(entries.add(), {"key": k, "value": v})

    return fill_field


def _message_filler(kind: pa.DataType) -> Fill | None:
    if pa.types.is_struct(kind):
        return message_filler({field.name: field.type for field in kind})
    return _FILLERS.get(kind_name(kind), lambda kind: None)(kind)


def _decimal_filler(kind: pa.DataType) -> Fill:
    def fill_field(part: Any, value: Decimal) -> None:
        sign, digits, _ = value.as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        part.value = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        part.precision, part.scale = kind.precision, kind.scale

    return fill_field


def _put_date(part: Any, value: int) -> None:
    try:
        day = _EPOCH_DAY + timedelta(days=value)
    except OverflowError:
        raise WrongType(
            f"PROTOBUF does not support the date {value} days after 1970-01-01", fix="keep dates in the years 1 to 9999"
        ) from None
    part.year, part.month, part.day = day.year, day.month, day.day


def _put_time(part: Any, value: int) -> None:
    seconds, ms = divmod(value, 1000)
    part.hours, part.minutes, part.seconds, part.nanos = (
        seconds // 3600,
        seconds // 60 % 60,
        seconds % 60,
        ms * 1_000_000,
    )


def _put_timestamp(part: Any, value: int) -> None:
    part.seconds, part.nanos = value // 1000, value % 1000 * 1_000_000


_FILLERS: dict[str, Callable[[pa.DataType], Fill | None]] = {
    "decimal": _decimal_filler,
    "date": lambda kind: _put_date,
    "time": lambda kind: _put_time,
    "timestamp": lambda kind: _put_timestamp,
}
