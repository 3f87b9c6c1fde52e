"""Rows of a stream or table as Python has them: dicts by column, the key's columns too, with Python's values.

Columns go by their names in lower case; those that were quoted keep their letters. A windowed key also has
`windowstart` and `windowend`, in ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from headrace.errors import BadRecord
from headrace.lang.python.annotations import by_type
from headrace.lang.python.expressions import folded
from headrace.lang.python.operators import shown
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Event
from headrace.plan.types import TIMESTAMP
from headrace.schema import Field

Row = dict[str, Any]
Change = tuple[Row, Row | None]
"""The key, and the whole row, or None where a table's row was deleted."""


def moment(at: int | datetime) -> int:
    """A time in ms since 1970."""
    return by_type(TIMESTAMP).write(at) if isinstance(at, datetime) else at


def event_of(source: SourceInfo, row: Mapping[str, Any], time: int) -> Event:
    """A row to be written. Columns that are left out are null; a name that no column has is refused."""
    given = _given(row, source)
    return time, _values(source.relation.key, given), _values(source.payload, given)


def deletion_of(source: SourceInfo, key: Mapping[str, Any], time: int) -> Event:
    return time, _values(source.relation.key, _given(key, source)), None


def change_of(source: SourceInfo, event: Event) -> Change:
    """A record that was read."""
    _, key, row = event
    names = _named(source.relation.key, key or ())
    if source.relation.window is not None and key:
        names |= {"windowstart": key[-1][0], "windowend": key[-1][1]}
    return names, None if row is None else names | _named(source.payload, row)


def _given(row: Mapping[str, Any], source: SourceInfo) -> Row:
    """The row by the names that the columns have."""
    names = [field.name for field in source.relation.columns]
    given = {name if name in names else folded(name): value for name, value in row.items()}
    if unknown := [name for name in given if name not in names]:
        raise BadRecord(
            f'{source.name} has no column "{shown(unknown[0])}"', fix=f"columns are {', '.join(map(shown, names))}"
        )
    return given


def _values(fields: Iterable[Field], given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(by_type(field.type).write(given.get(field.name)) for field in fields)


def _named(fields: Iterable[Field], values: Iterable[Any]) -> Row:
    pairs = zip(fields, values, strict=False)  # behind the columns of a key stands its window
    return {shown(field.name): by_type(field.type).read(value) for field, value in pairs}
