"""The catalog: streams and tables by name, user-defined types, running queries. A plain value that statements change.

Planning a statement returns an *action*: the external effect to apply (create a topic, start a query, write a row).
Planning changes the catalog at once, so that the next statement of a script sees it; `Catalog.copy` preserves the old
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from headrace.plan.expressions import Expression
from headrace.plan.nodes import Format, Kind, Query, Relation, SystemColumn, Timestamp, payload
from headrace.plan.notifiers import Notifier
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


# -- actions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Create:
    """Creates a source; `query`, if set, fills it. `replaces` is the id of a query that is stopped for it."""

    source: SourceInfo
    query: Query | None = None
    replaces: str | None = None


@dataclass(frozen=True)
class Insert:
    """Starts a query that writes into an existing source."""

    query: Query


@dataclass(frozen=True)
class Write:
    """Writes one row (INSERT VALUES): the values of the key's and the payload's columns, as chain values."""

    source: SourceInfo
    key: tuple[Any, ...]
    value: tuple[Any, ...]
    timestamp: int | None = None


@dataclass(frozen=True)
class Delete:
    """Deletes rows of a table: a tombstone is written for each key."""

    source: SourceInfo
    keys: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Control:
    """Stops, pauses or resumes queries; `verb` is TERMINATE, PAUSE or RESUME."""

    verb: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Drop:
    source: SourceInfo
    delete_topic: bool = False
    ends: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result: its name there, and whether it is a key column or a bound of the window."""

    name: str
    type: pa.DataType
    in_key: bool = False


@dataclass(frozen=True)
class TransientSelect:
    """A transient query: a push query if `push`, else a pull query over materialized rows.

    `columns` are those of SELECT in order; `order` is that of the rows, each with whether it is descending.
    """

    query: Query
    push: bool
    limit: int | None = None
    columns: tuple[ResultColumn, ...] = ()
    order: tuple[tuple[Expression, bool], ...] = ()


@dataclass(frozen=True)
class ExpectRecord:
    """ASSERT VALUES: the next record of the source has these values; a `value` of None is a deletion."""

    source: SourceInfo
    columns: tuple[str, ...]
    values: tuple[Any, ...]
    null: bool = False


@dataclass(frozen=True)
class ExpectSource:
    """ASSERT STREAM or TABLE: a source of that shape exists. `properties` are those given in the statement."""

    name: str
    expected: SourceInfo
    properties: Mapping[str, Any]


class MetadataKind(StrEnum):
    """The subject of a metadata query: all objects of a kind, or one of them."""

    STREAMS = "streams"
    TABLES = "tables"
    SOURCE = "source"
    TOPICS = "topics"
    TOPIC = "topic"
    QUERIES = "queries"
    QUERY = "query"
    FUNCTIONS = "functions"
    FUNCTION = "function"
    TYPES = "types"
    PROPERTIES = "properties"
    VARIABLES = "variables"
    ALERTS = "alerts"
    ALERT = "alert"
    NOTIFIERS = "notifiers"
    CONNECTORS = "connectors"
    PLUGINS = "connector plugins"


@dataclass(frozen=True)
class MetadataQuery:
    """A metadata statement that `headrace.lang.ksql.describe` answers: LIST, DESCRIBE, EXPLAIN, PRINT.

    `name` is that of the one object it is about; `query` is what EXPLAIN explains, its type PERSISTENT, PUSH or PULL.
    `described` requests descriptions of all objects of the kind instead of their list; `all` includes those of the
    system. The last three fields are those of PRINT.
    """

    about: MetadataKind
    name: str = ""
    text: str = field(default="", compare=False)
    query: Query | None = None
    query_type: str = "PERSISTENT"
    extended: bool = False
    described: bool = False
    all: bool = False
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Done:
    """The statement only changed the catalog or the settings."""

    statement: Any = None


Action = (
    Create
    | Insert
    | Write
    | Delete
    | Control
    | Drop
    | TransientSelect
    | ExpectRecord
    | ExpectSource
    | MetadataQuery
    | Done
)
