"""JSON values to column values, by one of two sets of rules: `lenient` as ksqlDB, or `strict` for typed topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.formats.primitives import Convert, Mismatch

Find = Callable[[dict[Any, Any]], Iterable[Any]]
"""Finds an object's values by name, in the order of the names; None where a name is missing."""


@dataclass(frozen=True)
class Rules:
    """How values of each type are read. No function is called with None."""

    leaf: Callable[[pa.DataType], Convert]
    map: Callable[[pa.DataType, Convert], Convert]
    """For a map's type and the function for its items."""
    lookup: Callable[[Sequence[str]], Find]


def reader(kind: pa.DataType, rules: Rules) -> Convert:
    """A function for values of the type; it is never called with None."""
    if pa.types.is_list(kind):
        return _array(reader(kind.value_type, rules))
    if pa.types.is_map(kind):
        return rules.map(kind, reader(kind.item_type, rules))
    return _struct(kind, rules) if pa.types.is_struct(kind) else rules.leaf(kind)


def _array(item: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Mismatch("array", value)
        items: list[Any] = []
        try:
            for v in value:
                items.append(None if v is None else item(v))
        except Mismatch as error:
            error.path.append(f"[{len(items)}]")
            raise
        return items

    return convert


def _struct(kind: pa.DataType, rules: Rules) -> Convert:
    fields = [(f.name, reader(f.type, rules)) for f in kind]
    find = rules.lookup([name for name, _ in fields])

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Mismatch("struct", value)
        items: dict[str, Any] = {}
        for (name, read), v in zip(fields, find(value), strict=True):
            try:
                items[name] = None if v is None else read(v)
            except Mismatch as error:
                error.path.append(f".{name}")
                raise
        return items

    return convert
