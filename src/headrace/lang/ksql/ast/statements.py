"""Statements, except those of alerts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from headrace.lang.ksql.ast.expressions import Expr
from headrace.lang.ksql.ast.node import Ast
from headrace.lang.ksql.ast.queries import Query
from headrace.lang.ksql.ast.types import Type
from headrace.span import Span


@dataclass(frozen=True)
class Property(Ast):
    """`KAFKA_TOPIC = 'orders'`: the name in upper case; the value is text, a number, a boolean or None."""

    name: str
    value: Any


class Constraint(StrEnum):
    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"
    HEADER = "HEADER"


@dataclass(frozen=True)
class Element(Ast):
    """A column of CREATE STREAM or TABLE; `header` is the name in HEADER('name')."""

    name: str
    type: Type
    constraint: Constraint | None = None
    header: str | None = None


@dataclass(frozen=True)
class Statement(Ast):
    """Base class of all statements. `spans` are the positions of the names that stand in the statement itself."""

    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False, kw_only=True)

    def span_of(self, name: str | None) -> Span:
        return dict(self.spans).get(name or "", self.span)


@dataclass(frozen=True)
class CreateSource(Statement):
    """`kind`: STREAM or TABLE. `read_only` is CREATE SOURCE STREAM. Without a column list `elements` is empty."""

    kind: str
    name: str
    elements: tuple[Element, ...] = ()
    properties: tuple[Property, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    read_only: bool = False


@dataclass(frozen=True)
class CreateAs(Statement):
    kind: str
    name: str
    query: Query
    properties: tuple[Property, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class InsertInto(Statement):
    target: str
    query: Query
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True)
class InsertValues(Statement):
    """Without a column list `columns` is empty."""

    target: str
    columns: tuple[str, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class DeleteFrom(Statement):
    """Extension: writes a tombstone for each key that the condition names."""

    target: str
    where: Expr


@dataclass(frozen=True)
class DropSource(Statement):
    kind: str
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True)
class AlterSource(Statement):
    kind: str
    name: str
    columns: tuple[Element, ...]


@dataclass(frozen=True)
class CreateType(Statement):
    name: str
    type: Type
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropType(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class SetProperty(Statement):
    """`system` is ALTER SYSTEM."""

    name: str
    value: str
    system: bool = False


@dataclass(frozen=True)
class UnsetProperty(Statement):
    name: str


@dataclass(frozen=True)
class Define(Statement):
    name: str
    value: str


@dataclass(frozen=True)
class Undefine(Statement):
    name: str


@dataclass(frozen=True)
class SelectStatement(Statement):
    """A push query (EMIT CHANGES) or a pull query."""

    query: Query


@dataclass(frozen=True)
class Describe(Statement):
    """`what`: SOURCE, FUNCTION, STREAMS, TABLES, CONNECTOR, ALERT."""

    what: str
    name: str | None = None
    extended: bool = False


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN of a running query, by its id, or of a statement."""

    query_id: str | None = None
    statement: Statement | None = None
    analyze: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """LIST or SHOW. `what`: STREAMS, TABLES, TOPICS, QUERIES, FUNCTIONS, TYPES, PROPERTIES, VARIABLES ..."""

    what: str
    extended: bool = False
    all: bool = False


@dataclass(frozen=True)
class Print(Statement):
    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ControlQuery(Statement):
    """`verb`: TERMINATE, PAUSE or RESUME; without an id it applies to all queries."""

    verb: str
    query_id: str | None = None


@dataclass(frozen=True)
class KillProcess(Statement):
    """The id is that of SHOW PROCESSES, in quotes or not."""

    process: str | int


@dataclass(frozen=True)
class RunScript(Statement):
    path: str


@dataclass(frozen=True)
class CreateConnector(Statement):
    """`kind`: SOURCE or SINK."""

    kind: str
    name: str
    properties: tuple[Property, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropConnector(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class AssertValues(Statement):
    """`null` is ASSERT NULL VALUES: a tombstone, with the key columns given."""

    target: str
    columns: tuple[str, ...]
    values: tuple[Expr, ...]
    null: bool = False


@dataclass(frozen=True)
class AssertSource(Statement):
    kind: str
    name: str
    elements: tuple[Element, ...]
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True)
class AssertTopic(Statement):
    topic: str
    properties: tuple[Property, ...] = ()
    exists: bool = True
    timeout: timedelta | None = None


@dataclass(frozen=True)
class AssertSchema(Statement):
    subject: str | None = None
    schema_id: int | None = None
    exists: bool = True
    timeout: timedelta | None = None
