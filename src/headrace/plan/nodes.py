"""The plan: what flows (relations) and what is done with it (nodes), as frozen values without behaviour.

A stream is a sequence of facts; a table is the last row per key, and what flows is its changes. A node's relation
says which of the two it gives out, the key's columns and the other columns. Key values are not repeated among the
values; an expression may name both, and the pseudo columns of `expressions.PSEUDO`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headrace.plan.expressions import Expression, Named
from headrace.plan.triggers import Results, Trigger
from headrace.schema import Field

if TYPE_CHECKING:
    from headrace.plan.alerts import Alert
    from headrace.plan.functions.declare import AggregateOverload
    from headrace.plan.operators import OperatorKind


class Kind(StrEnum):
    STREAM = "stream"
    TABLE = "table"


class WindowKind(StrEnum):
    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SLIDING = "sliding"
    SESSION = "session"


@dataclass(frozen=True)
class Window:
    """How rows of a key are grouped by time. `grace` is how long after its end a window still takes late rows.

    A session has no size: it lasts until `gap` passes without a row. `advance` is the hop; for a tumbling window the
    size. A hop longer than the size is sampling: rows between two windows belong to none. A sliding window has no hop:
    each row ends one. When time has passed by `idle` without a row of any key, all open windows close.
    """

    kind: WindowKind
    size: timedelta | None = None
    advance: timedelta | None = None
    gap: timedelta | None = None
    grace: timedelta | None = None
    retention: timedelta | None = None
    idle: timedelta | None = None


@dataclass(frozen=True)
class Relation:
    """What flows out of a node. With a `window` the key's last part, unnamed, is the window's (start, end) in ms."""

    kind: Kind
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    window: Window | None = None

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.key + self.value

    def column(self, name: str) -> Field | None:
        return next((f for f in self.columns if f.name == name), None)


@dataclass(frozen=True)
class Format:
    """How bytes become columns: a serde's name (`JSON`, `DELIMITED`, `KAFKA` ...) and its options."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, name: str, otherwise: Any = None) -> Any:
        return dict(self.options).get(name, otherwise)


@dataclass(frozen=True)
class Timestamp:
    """The column that holds a record's time: milliseconds, a TIMESTAMP, or text in `format`."""

    column: str
    format: str | None = None


class System(StrEnum):
    """Columns that come from the record's envelope."""

    PARTITION = "partition"
    OFFSET = "offset"
    HEADERS = "headers"
    HEADER = "header"


@dataclass(frozen=True)
class SystemColumn:
    name: str
    kind: System
    header: str | None = None


def payload(relation: Relation, system: tuple[SystemColumn, ...]) -> tuple[Field, ...]:
    """The columns of a source's payload: its values without those that come from the envelope, which stand last."""
    return relation.value[: len(relation.value) - len(system)]


@dataclass(frozen=True)
class Node:
    """What all of them have. Inputs come first among the fields, so that a plan reads from the end to its sources."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(v for f in fields(self) if isinstance(v := getattr(self, f.name), Node))


@dataclass(frozen=True)
class Source(Node):
    """Records of a topic. `relation.value` holds the payload's columns, then those of `system`."""

    name: str
    topic: str
    relation: Relation
    key_format: Format
    value_format: Format
    timestamp: Timestamp | None = None
    system: tuple[SystemColumn, ...] = ()


@dataclass(frozen=True)
class Filter(Node):
    """Rows for which the condition is true. On a table a row that ceases to fit becomes a deletion."""

    input: Node
    relation: Relation
    condition: Expression


@dataclass(frozen=True)
class Select(Node):
    """New values; the key stays as it is, its columns may get other names."""

    input: Node
    relation: Relation
    values: tuple[Named, ...]


@dataclass(frozen=True)
class Rekey(Node):
    """A stream under another key (PARTITION BY, or what a join needs). Values stay, and behind them come those of
    the old key's columns that the relation names.

    `explicit` is what a user asked for: then rows whose key is null go on. Before a join they are of no use.
    """

    input: Node
    relation: Relation
    keys: tuple[Named, ...]
    explicit: bool = True


@dataclass(frozen=True)
class Explode(Node):
    """Each row as often as the longest list among the table functions, which add columns; no list, no row."""

    input: Node
    relation: Relation
    functions: tuple[Named, ...]


@dataclass(frozen=True)
class Distinct(Node):
    """Of rows that are equal in `on`, the first in order of arrival, as it is; nulls are equal to each other.

    With a tumbling `window` it is the first of each window, by the rows' own time, and what was seen in a window is
    forgotten when it closes. Without one it is remembered for ever.
    """

    input: Node
    relation: Relation
    on: tuple[Named, ...]
    window: Window | None = None


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate: its column, the chosen overload, arguments per row and the constants it was made with."""

    name: str
    function: str
    overload: AggregateOverload
    arguments: tuple[Expression, ...]
    constants: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Aggregate(Node):
    """A table of aggregates per group and, for a stream, per window. On a table, rows that change are taken back.

    Its values are the results of `calls`, under their names. Rows with a null among `groups` belong to no group,
    and are left out.
    """

    input: Node
    relation: Relation
    groups: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Final(Node):
    """EMIT FINAL: the last value of each window, once, when no more rows can come for it."""

    input: Node
    relation: Relation


@dataclass(frozen=True)
class Emit(Node):
    """A table whose changes go on when the trigger says so: of several for a key only what they come to.

    To discard, it must stand directly on an aggregate, which then begins anew after each result.
    """

    input: Node
    relation: Relation
    trigger: Trigger
    results: Results = Results.ACCUMULATING


@dataclass(frozen=True)
class Arrival(Node):
    """A stream by processing time: each row has the time at which it arrives, and no longer its own."""

    input: Node
    relation: Relation


@dataclass(frozen=True)
class Operate(Node):
    """What an operator, of the user's own or an alert's rule, makes of a stream: state and timers by key."""

    input: Node
    relation: Relation
    operator: OperatorKind


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


@dataclass(frozen=True)
class StreamJoin(Node):
    """Stream with stream: pairs of equal key at most `before` and `after` apart (right minus left).

    Without `grace` an unmatched row of an outer join goes out at once, and again when a match comes: ksqlDB's old way.
    """

    left: Node
    right: Node
    relation: Relation
    kind: JoinKind
    before: timedelta
    after: timedelta
    grace: timedelta | None = None


@dataclass(frozen=True)
class Enrich(Node):
    """Stream with table: each row with the table's row of that key at the moment it arrives (inner or left).

    With a `history` it is the table's row at the row's own time, for rows that are at most that late.
    """

    left: Node
    right: Node
    relation: Relation
    kind: JoinKind
    history: timedelta | None = None


@dataclass(frozen=True)
class TableJoin(Node):
    """Table with table of the same key: a table that changes with both."""

    left: Node
    right: Node
    relation: Relation
    kind: JoinKind


@dataclass(frozen=True)
class ForeignKeyJoin(Node):
    """Table with table, where `reference`, computed from the left row, is the right row's key (inner or left)."""

    left: Node
    right: Node
    relation: Relation
    kind: JoinKind
    reference: Expression


@dataclass(frozen=True)
class Union(Node):
    """All rows of both streams, in the order they arrive."""

    left: Node
    right: Node
    relation: Relation


@dataclass(frozen=True)
class Top(Node):
    """ORDER BY ... LIMIT: a table that holds the first `count` rows of its input by `order`."""

    input: Node
    relation: Relation
    order: tuple[tuple[Expression, bool], ...]
    """Expressions, each with whether it goes downwards."""
    count: int


@dataclass(frozen=True)
class Sink(Node):
    """Where results go: a topic, written in these formats. `timestamp` is the column that becomes the record's time."""

    input: Node
    relation: Relation
    name: str
    topic: str
    key_format: Format
    value_format: Format
    timestamp: Timestamp | None = None
    partitions: int | None = None
    replicas: int | None = None


@dataclass(frozen=True)
class Query:
    """A persistent query: its id, its sink, and the statement it came from."""

    id: str
    sink: Sink
    text: str = field(default="", compare=False)
    strict: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Codes of problems that end the query, each with the setting that says so; others become dead letters."""
    every_change: bool = field(default=False, compare=False)
    """The statement's settings ask for every change of a table, where those of a batch would be merged."""
    alert: Alert | None = field(default=None, compare=False)
    """Whose rule it runs, if it is an alert's."""

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(node for node in walk(self.sink) if isinstance(node, Source))


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, left before right."""
    yield node
    for below in node.inputs:
        yield from walk(below)
