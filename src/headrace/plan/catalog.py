"""The catalog: streams and tables by name, user-defined types, running queries. A plain value that statements change.

Planning a statement changes the catalog at once, so that the next statement of a script sees it; `Catalog.copy`
preserves the old one. The effects outside the catalog are `actions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.errors import BadQuery, SourceReadOnly
from headrace.plan.nodes import Query
from headrace.plan.notifiers import Notifier
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
    def is_kept(self) -> bool:
        """Whether it is a materialized table that pull queries can read: a query fills it, or it is declared SOURCE
        TABLE.
        """
        return self.kind is Kind.TABLE and (self.derived or self.read_only)

    @property
    def payload(self) -> tuple[Field, ...]:
        return payload(self.relation, self.system)


@dataclass
class Catalog:
    sources: dict[str, SourceInfo] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    """Partition counts of existing topics, by name; any other topic is created when it is first named."""
    numbered: int | None = None
    """Number of the next query; None: the number of queries."""
    notifiers: dict[str, Notifier] = field(default_factory=dict)

    def copy(self) -> Catalog:
        there = (dict(self.sources), dict(self.types), dict(self.queries), dict(self.partitions))
        return Catalog(*there, self.numbered, dict(self.notifiers))

    def restore(self, kept: Catalog) -> None:
        """Restores the content of a copy."""
        for name, value in vars(kept.copy()).items():
            setattr(self, name, value)

    @property
    def number(self) -> int:
        """The number of the next query."""
        return len(self.queries) if self.numbered is None else self.numbered

    @property
    def alerts(self) -> dict[str, Query]:
        """Returns the queries that run alert rules, by alert name."""
        return {query.alert.name: query for query in self.queries.values() if query.alert is not None}

    def readers(self, name: str) -> list[str]:
        """Returns the ids of the queries that read a source."""
        return [q.id for q in self.queries.values() if any(s.name == name for s in q.sources)]

    def writers(self, name: str) -> list[str]:
        """Returns the ids of the queries that write to a source."""
        return [q.id for q in self.queries.values() if q.sink.name == name]


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
