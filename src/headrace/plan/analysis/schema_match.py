"""Matches declared columns with those of a topic's schema, by name in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from headrace.contracts import Topic
from headrace.errors import SchemaMismatch
from headrace.schema import Field, type_name

Fits = Callable[[pa.DataType, pa.DataType], bool]
"""Whether a type of the topic's schema fits the declared type."""


def match_columns(
    declared: Iterable[Field], topic: Topic, whose: str, fits: Fits, *, fix: str | None = None
) -> dict[str, Field]:
    """Returns the topic's column by declared name. Raises SchemaMismatch with all differences."""
    columns = {column.name.upper(): column for column in topic.schema.fields}
    matches: dict[str, Field] = {}
    problems: list[str] = []
    for field in declared:
        column = columns.get(field.name.upper())
        if column is None:
            problems.append(f'column "{field.name}" does not exist in the topic')
        elif not fits(column.type, field.type):
            problems.append(f'column "{field.name}" is {type_name(field.type)}, the topic has {type_name(column.type)}')
        else:
            matches[field.name] = column
    if problems:
        raise SchemaMismatch(
            f'{whose} does not match topic "{topic.name}": {"; ".join(problems)}',
            fix=fix or f"declare the columns as in the topic's schema: {topic.schema}",
        )
    return matches
