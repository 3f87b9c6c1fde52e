"""Converts rows of a stream or table to Python dicts by column, key columns included, and back.

Columns have lower-case names; quoted ones keep their case. A windowed key also has `windowstart` and `windowend`, in
ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from headrace.errors import BadRecord, suggestion
from headrace.lang.python.annotations import mapping_of_type
from headrace.lang.python.expressions import fold_name
from headrace.lang.python.operators import python_name
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event
from headrace.plan.types import TIMESTAMP
from headrace.schema import Field

Row = dict[str, Any]
Change = tuple[Row, Row | None]
"""The key, and the whole row, or None for a deletion of a table's row."""


def time_ms(at: int | datetime) -> int:
    """Convert a time to ms since 1970."""
    return mapping_of_type(TIMESTAMP).write(at) if isinstance(at, datetime) else at


def row_to_event(source: SourceInfo, row: Mapping[str, Any], time: int) -> Event:
    """Convert a row to write. Omitted columns are null; an unknown name is rejected."""
    given = _given(row, source)
    return time, _values(source.relation.key, given), _values(source.payload, given)


def key_to_deletion(source: SourceInfo, key: Mapping[str, Any], time: int) -> Event:
    return time, _values(source.relation.key, _given(key, source)), None


def event_to_change(source: SourceInfo, event: Event) -> Change:
    """Convert a record that was read."""
    _, key, row = event
    names = _named(source.relation.key, key or ())
    if source.relation.window is not None and key:
        names |= {"windowstart": key[-1][0], "windowend": key[-1][1]}
    return names, None if row is None else names | _named(source.payload, row)


def _given(row: Mapping[str, Any], source: SourceInfo) -> Row:
    """Return the row by the columns' own names."""
    names = [field.name for field in source.relation.columns]
    given = {name if name in names else fold_name(name): value for name, value in row.items()}
    if unknown := [name for name in given if name not in names]:
        known, name = [python_name(one) for one in names], python_name(unknown[0])
        raise BadRecord(
            f'{source.name} has no column "{name}"',
            fix=suggestion(name, known, f"columns are {', '.join(known)}"),
        )
    return given


def _values(fields: Iterable[Field], given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(mapping_of_type(field.type).write(given.get(field.name)) for field in fields)


def _named(fields: Iterable[Field], values: Iterable[Any]) -> Row:
    pairs = zip(fields, values, strict=False)  # a windowed key has its window after the columns
    return {python_name(field.name): mapping_of_type(field.type).read(value) for field, value in pairs}
