"""What exists: streams and tables by name, user-made types, running queries. A plain value that statements change.

`planned` statements return an *action*: what must be done in the world (create a topic, start a query, write a row).
Planning changes the catalog at once, so that the next statement of a script sees it; `Catalog.copy` keeps the old one.
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

    `relation` has the payload's columns only; `system` are columns that come from the envelope (headers), which stand
    behind them in `SELECT *`. `wrapped` tells whether a single value column stands inside an object or bare.
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
    """Made by a query: CREATE ... AS SELECT."""
    indexes: tuple[tuple[str, ...], ...] = ()
    """Columns by which rows that are kept can be looked up, beside the key."""
    text: str = field(default="", compare=False)

    @property
    def kind(self) -> Kind:
        return self.relation.kind

    @property
    def is_kept(self) -> bool:
        """Whether it is a table whose rows are kept, to be asked: a query fills it, or it is declared SOURCE TABLE."""
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
    """Of topics that exist already, by name; what is not here is made when it is first named."""
    numbered: int | None = None
    """What the next query is numbered with; None: how many there are."""
    notifiers: dict[str, Notifier] = field(default_factory=dict)

    def copy(self) -> Catalog:
        there = (dict(self.sources), dict(self.types), dict(self.queries), dict(self.partitions))
        return Catalog(*there, self.numbered, dict(self.notifiers))

    def restore(self, kept: Catalog) -> None:
        """Be as a copy was."""
        for name, value in vars(kept.copy()).items():
            setattr(self, name, value)

    @property
    def number(self) -> int:
        """Of the next query."""
        return len(self.queries) if self.numbered is None else self.numbered

    @property
    def alerts(self) -> dict[str, Query]:
        """The queries that run the rules of alerts, by the alerts' names."""
        return {query.alert.name: query for query in self.queries.values() if query.alert is not None}

    def readers(self, name: str) -> list[str]:
        """Ids of the queries that read a source."""
        return [q.id for q in self.queries.values() if any(s.name == name for s in q.sources)]

    def writers(self, name: str) -> list[str]:
        """Ids of the queries that write a source."""
        return [q.id for q in self.queries.values() if q.sink.name == name]


# -- actions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Create:
    """A source now exists; `query`, if there is one, fills it. `replaces` is the id of a query that ends for it."""

    source: SourceInfo
    query: Query | None = None
    replaces: str | None = None


@dataclass(frozen=True)
class Insert:
    """A query writes into a source that exists."""

    query: Query


@dataclass(frozen=True)
class Write:
    """A row written by hand: the values of the key's and the payload's columns, in the chain's form."""

    source: SourceInfo
    key: tuple[Any, ...]
    value: tuple[Any, ...]
    timestamp: int | None = None


@dataclass(frozen=True)
class Delete:
    """Rows of a table that go: a deletion is written for each of the keys."""

    source: SourceInfo
    keys: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Control:
    """Queries that end, pause or go on; `verb` is TERMINATE, PAUSE or RESUME."""

    verb: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Drop:
    source: SourceInfo
    delete_topic: bool = False
    ends: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """A column of an answer: what it is called there, and whether it is one of the key or a bound of the window."""

    name: str
    type: pa.DataType
    in_key: bool = False


@dataclass(frozen=True)
class Ask:
    """A query that answers somebody: `push` goes on, else it is answered from what is there.

    `columns` are those of SELECT in their order; `order` is that of the rows, each with whether it goes downwards.
    """

    query: Query
    push: bool
    limit: int | None = None
    columns: tuple[Shown, ...] = ()
    order: tuple[tuple[Expression, bool], ...] = ()


@dataclass(frozen=True)
class Expect:
    """ASSERT VALUES: the next record of the source has these values; `value` None is a deletion."""

    source: SourceInfo
    columns: tuple[str, ...]
    values: tuple[Any, ...]
    null: bool = False


@dataclass(frozen=True)
class ExpectSource:
    """ASSERT STREAM or TABLE: a source of that shape exists. `properties` are the ones that were given."""

    name: str
    expected: SourceInfo
    properties: Mapping[str, Any]


class About(StrEnum):
    """What a question is about: all things of a kind, or one of them."""

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
class Answer:
    """A question that `plan.answers` answers from what is there: LIST, DESCRIBE, EXPLAIN, PRINT.

    `name` is that of the one thing it is about; `query` is what EXPLAIN explains, its type PERSISTENT, PUSH or PULL.
    `described` asks for descriptions of all things of the kind instead of their list; `all` for those of the system
    too. The last three are PRINT's.
    """

    about: About
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


Action = Create | Insert | Write | Delete | Control | Drop | Ask | Expect | ExpectSource | Answer | Done
