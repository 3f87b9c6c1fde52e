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
    values = _values_by_column(row, source)
    return time, _values(source.relation.key, values), _values(source.payload, values)


def key_to_deletion(source: SourceInfo, key: Mapping[str, Any], time: int) -> Event:
    return time, _values(source.relation.key, _values_by_column(key, source)), None


def event_to_change(source: SourceInfo, event: Event) -> Change:
    """Convert a record that was read."""
    _, key, row = event
    values = _row_by_name(source.relation.key, key or ())
    if source.relation.window is not None and key:
        values |= {"windowstart": key[-1][0], "windowend": key[-1][1]}
    return values, None if row is None else values | _row_by_name(source.payload, row)


def _values_by_column(row: Mapping[str, Any], source: SourceInfo) -> Row:
    """Return the row by the columns' own names."""
    names = [field.name for field in source.relation.columns]
    values = {name if name in names else fold_name(name): value for name, value in row.items()}
    if unknown := [name for name in values if name not in names]:
        columns, name = [python_name(one) for one in names], python_name(unknown[0])
        raise BadRecord(
            f'{source.name} has no column "{name}"',
            fix=suggestion(name, columns, f"columns are {', '.join(columns)}"),
        )
    return values


def _values(fields: Iterable[Field], values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(mapping_of_type(field.type).write(values.get(field.name)) for field in fields)


def _row_by_name(fields: Iterable[Field], values: Iterable[Any]) -> Row:
    pairs = zip(fields, values, strict=False)  # a windowed key has its window after the columns
    return {python_name(field.name): mapping_of_type(field.type).read(value) for field, value in pairs}
