"""Streams and tables as the catalog holds them, and what rows may be inserted into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import BadQuery, SourceReadOnly
from headrace.plan.relations import Format, Kind, Relation, SystemColumn, Timestamp, payload
from headrace.schema import Field


@dataclass(frozen=True)
class SourceInfo:
    """A stream or table: where its records are and how they are read.

    `relation` has the payload's columns only; `system` are columns from the envelope (headers), which follow them in
    `SELECT *`. `wrapped` says whether a single value column is a field of an object or a bare value.
    """

    name: str
    topic: str
    relation: Relation
    key_format: Format
    value_format: Format
    timestamp: Timestamp | None = None
    system: tuple[SystemColumn, ...] = ()
    partitions: int | None = None
    read_only: bool = False
    derived: bool = False
    """Created by a query: CREATE ... AS SELECT."""
    indexes: tuple[tuple[str, ...], ...] = ()
    """Columns by which materialized rows can be looked up, in addition to the key."""
    text: str = field(default="", compare=False)

    @property
    def kind(self) -> Kind:
        return self.relation.kind

    @property
    def is_materialized(self) -> bool:
        """Whether it is a materialized table that pull queries can read: a query fills it, or it is declared SOURCE
        TABLE.
        """
        return self.kind is Kind.TABLE and (self.derived or self.read_only)

    @property
    def payload(self) -> tuple[Field, ...]:
        return payload(self.relation, self.system)


def check_insertable(source: SourceInfo) -> SourceInfo:
    """Returns the source, if rows can be inserted into it."""
    if source.read_only:
        raise SourceReadOnly(f"Cannot insert values into read-only {source.kind}: {source.name}")
    if source.relation.window is not None:
        raise BadQuery(f"Cannot insert values into windowed {source.kind} {source.name}")
    return source


def check_key(source: SourceInfo, key: Sequence[Any]) -> None:
    """Raises if a table's row has no primary key."""
    if source.kind is Kind.TABLE and any(v is None for v in key):
        names = ", ".join(f.name for f in source.relation.key)
        raise BadQuery(
            f"Failed to insert values into '{source.name}'. "
            f"Value for primary key column(s) {names} is required for tables"
        )
