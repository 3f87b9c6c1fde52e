"""JSON and text to column values by the strict rules of typed topics: exact names and types, nothing is rounded.

This defines the semantics of the row formats `json` and `csv`; the vectorized paths only do the same faster. A map is a
list of pairs, because its keys may have any type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from headrace.formats.column_types import kind_name
from headrace.formats.json.decoder import Find, Rules, reader
from headrace.formats.json.document import parse_json_exactly
from headrace.formats.primitives import NUMBER, PRIMITIVES, Convert, Mismatch, convert_at
from headrace.schema import type_name


@cache
def from_json(kind: pa.DataType) -> Convert:
    """A function from a JSON value to the internal form; None stays None."""
    convert = reader(kind, _RULES)
    return lambda value: None if value is None else convert(value)


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


def _map(kind: pa.DataType, item: Convert) -> Convert:
    key = from_text(kind.key_type)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict) or getattr(value, "twice", None):
            raise Mismatch("map with each key once", value)
        pairs = [(convert_at(f"[{k!r}]", key, k), convert_at(f"[{k!r}]", item, v)) for k, v in value.items()]
        if any(k is None for k, _ in pairs):
            raise Mismatch("map without null keys", value)
        return pairs

    return convert


def _lookup(names: Sequence[str]) -> Find:
    def find(value: dict[Any, Any]) -> Any:
        for name in getattr(value, "twice", ()):
            if name in names:
                raise Mismatch(f'"{name}" once', value)
        return map(value.get, names)

    return find


_RULES = Rules(lambda kind: PRIMITIVES[kind_name(kind)](kind), _map, _lookup)
