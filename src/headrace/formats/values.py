"""Converts single values of any type: from JSON or text to column values, and back.

This defines the semantics of the formats; the vectorized paths only do the same faster. The internal form of dates and
times is an integer (see `primitives`); `plain` is the Arrow type of the internal form.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.json_document import parse_json_exactly
from headrace.formats.primitives import EPOCH, MS, NUMBER, PRIMITIVES, Convert, Mismatch
from headrace.schema import type_name

_NON_FINITE_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(kind: pa.DataType) -> pa.DataType:
    """The type with integers in place of dates and times."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain(f.type)) for f in kind])
    return kind


def column_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Converted values as a column."""
    return pa.array(values, plain(kind)).cast(kind)


def values_of(column: pa.Array) -> list[Any]:
    """The internal form of a column's values."""
    return column.cast(plain(column.type)).to_pylist()


def valid_texts(payloads: pa.BinaryArray) -> tuple[pa.StringArray, np.ndarray]:
    """Payloads as text, and the indexes of those that are not UTF-8 (null in the text)."""
    try:
        return payloads.cast(pa.string()), np.zeros(0, np.int64)
    except pa.ArrowInvalid:
        texts = [_utf8(p) for p in payloads.to_pylist()]
        array = pa.array(texts, pa.string())
        bad = pc.and_(array.is_null(), payloads.is_valid())
        return array, np.flatnonzero(bad.to_numpy(zero_copy_only=False))


def _utf8(payload: bytes | None) -> str | None:
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None


# -- from JSON ------------------------------------------------------------------------------------------------------


@cache
def from_json(kind: pa.DataType) -> Convert:
    """A function from a JSON value to the internal form; None stays None."""
    convert = _nested(kind) or PRIMITIVES[type_name(kind).partition("(")[0]](kind)
    return lambda value: None if value is None else convert(value)


def _nested(kind: pa.DataType) -> Convert | None:
    if pa.types.is_list(kind):
        return _array(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    return _struct(kind) if pa.types.is_struct(kind) else None


def _inside(convert: Convert, value: Any, step: str) -> Any:
    try:
        return convert(value)
    except Mismatch as error:
        error.path.append(step)
        raise


def _array(kind: pa.DataType) -> Convert:
    item = from_json(kind.value_type)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Mismatch("array", value)
        return [_inside(item, v, f"[{i}]") for i, v in enumerate(value)]

    return convert


def _map(kind: pa.DataType) -> Convert:
    key, item = from_text(kind.key_type), from_json(kind.item_type)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict) or getattr(value, "twice", None):
            raise Mismatch("map with each key once", value)
        pairs = [(_inside(key, k, f"[{k!r}]"), _inside(item, v, f"[{k!r}]")) for k, v in value.items()]
        if any(k is None for k, _ in pairs):
            raise Mismatch("map without null keys", value)
        return pairs

    return convert


def _struct(kind: pa.DataType) -> Convert:
    fields = {f.name: from_json(f.type) for f in kind}

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Mismatch("struct", value)
        for name in getattr(value, "twice", ()):
            if name in fields:
                raise Mismatch(f'"{name}" once', value)
        return {name: _inside(f, value.get(name), f".{name}") for name, f in fields.items()}

    return convert


# -- from text, to JSON, to text ------------------------------------------------------------------------------------


@cache
def from_text(kind: pa.DataType) -> Convert:
    """A function from text (a CSV cell, the key of a map) to the internal form."""
    convert, scalar = from_json(kind), _text_reader(kind)

    def read(text: str) -> Any:
        try:
            return convert(scalar(text))
        except (ValueError, Mismatch):
            raise Mismatch(type_name(kind), text) from None

    return read


def _text_reader(kind: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_nested(kind):
        return lambda text: parse_json_exactly(text.encode())
    if pa.types.is_boolean(kind):
        return lambda text: {"true": True, "false": False}.get(text.lower(), text)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        return _number_or_text
    return lambda text: text


def _number_or_text(text: str) -> Any:
    if not NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("-").isdigit() else float(text)


@cache
def to_json(kind: pa.DataType) -> Convert:
    """A function from the internal form to what orjson writes."""
    convert = _writer(kind)
    return unchanged if convert is unchanged else lambda value: None if value is None else convert(value)


def unchanged(value: Any) -> Any:
    """For types whose internal form is what orjson writes."""
    return value


def _writer(kind: pa.DataType) -> Convert:
    if pa.types.is_list(kind):
        item = to_json(kind.value_type)
        return lambda value: [item(v) for v in value]
    if pa.types.is_map(kind):
        key, item = to_text(kind.key_type), to_json(kind.item_type)
        return lambda value: {key(k): item(v) for k, v in value}
    if pa.types.is_struct(kind):
        fields = {f.name: to_json(f.type) for f in kind}
        return lambda value: {name: f(value[name]) for name, f in fields.items()}
    return _WRITERS.get(type_name(kind).partition("(")[0], unchanged)


def _iso(moment: Callable[[int], str]) -> Convert:
    def convert(value: int) -> Any:
        try:
            return moment(value)
        except OverflowError:  # outside of the years 1 to 9999: written as a number
            return value

    return convert


_WRITERS: dict[str, Convert] = {
    "float": lambda value: _NON_FINITE_NAMES.get(repr(value), value),
    "double": lambda value: _NON_FINITE_NAMES.get(repr(value), value),
    "bytes": lambda value: base64.b64encode(value).decode(),
    "decimal": lambda value: orjson.Fragment(format(value, "f")),
    "date": _iso(lambda days: (EPOCH.date() + timedelta(days=days)).isoformat()),
    "time": _iso(lambda ms: (EPOCH + ms * MS).time().isoformat("milliseconds")),
    "timestamp": _iso(lambda ms: (EPOCH + ms * MS).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"),
}


@cache
def to_text(kind: pa.DataType) -> Callable[[Any], str]:
    """A function from the internal form to the text that `from_text` reads."""
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    convert = to_json(kind)

    def write(value: Any) -> str:
        written = convert(value)
        return written if isinstance(written, str) else orjson.dumps(written).decode()

    return write
