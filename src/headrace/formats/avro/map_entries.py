"""Maps with non-text keys as lists of entries, since Avro has no such maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

Write = Callable[[Any], Any]


def entries_writer(kind: pa.DataType) -> Write | None:
    """A function for values that are not None; None where nothing inside has to change."""
    if pa.types.is_list(kind):
        item = entries_writer(kind.value_type)
        return item and (lambda value: [_or_none(item, v) for v in value])
    if pa.types.is_struct(kind):
        return _struct(kind)
    return _map(kind) if pa.types.is_map(kind) else None


def _or_none(write: Write | None, value: Any) -> Any:
    return value if value is None or write is None else write(value)


def _struct(kind: pa.DataType) -> Write | None:
    fields = {field.name: entries_writer(field.type) for field in kind}
    if not any(fields.values()):
        return None
    return lambda value: {name: _or_none(write, value.get(name)) for name, write in fields.items()}


def _map(kind: pa.DataType) -> Write | None:
    key, item = entries_writer(kind.key_type), entries_writer(kind.item_type)
    if not pa.types.is_string(kind.key_type):
        return lambda value: [{"key": _or_none(key, k), "value": _or_none(item, v)} for k, v in value.items()]
    return item and (lambda value: {k: _or_none(item, v) for k, v in value.items()})
