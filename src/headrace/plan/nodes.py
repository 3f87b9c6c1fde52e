"""The nodes of a plan: its operations, as frozen values without behaviour.

A node's relation (see `relations`) says whether it emits a stream or a table, with the key columns and the value
columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.plan.expressions import Expression, NamedExpression
from headrace.plan.relations import Format, Relation, SystemColumn, Timestamp, Window
from headrace.plan.traits import Traits, ValueColumns
from headrace.plan.triggers import Results, Trigger

if TYPE_CHECKING:
    from headrace.plan.alerts import Alert
    from headrace.plan.functions.declaration import AggregateOverload
    from headrace.plan.operators import OperatorDefinition


@dataclass(frozen=True)
class Node:
    """Base class of all nodes. Inputs are the first fields, so that a plan reads from its sink to its sources."""

    traits: ClassVar[Traits]
    state_name: ClassVar[str]
    """Names the node's state in checkpoints, and stays when the class gets another name."""

    def __init_subclass__(cls, *, traits: Traits | None = None, **options: Any) -> None:
        """A kind of node declares its traits; a special form of a kind inherits them."""
        super().__init_subclass__(**options)
        if traits is not None:
            cls.traits, cls.state_name = traits, traits.state_name or cls.__name__.lower()
        elif not hasattr(cls, "traits"):
            raise TypeError(f"plan node {cls.__name__} declares no traits: write class ...(Node, traits=Traits(...))")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(v for f in fields(self) if isinstance(v := getattr(self, f.name), Node))


@dataclass(frozen=True)
class Source(Node, traits=Traits(stateful=False, timed=False, realtime=True, in_pull_queries=True)):
    """Records of a topic. `relation.value` holds the payload's columns, then those of `system`."""

    name: str
    topic: str
    relation: Relation
    key_format: Format
    value_format: Format
    timestamp: Timestamp | None = None
    system: tuple[SystemColumn, ...] = ()


@dataclass(frozen=True)
class Filter(
    Node,
    traits=Traits(
        stateful=False, timed=False, realtime=True, values=ValueColumns.INPUT, in_pull_queries=True, clause="WHERE"
    ),
):
    """Rows for which the condition is true. On a table, a row that no longer matches becomes a deletion."""

    input: Node
    relation: Relation
    condition: Expression


@dataclass(frozen=True)
class Select(
    Node,
    traits=Traits(
        stateful=False, timed=False, realtime=True, values=ValueColumns.SELECTED, in_pull_queries=True, clause="SELECT"
    ),
):
    """Computes new values; the key stays as it is, but its columns may be renamed."""

    input: Node
    relation: Relation
    values: tuple[NamedExpression, ...]


@dataclass(frozen=True)
class Rekey(
    Node,
    traits=Traits(
        stateful=False,
        timed=False,
        realtime=True,
        values=ValueColumns.INPUT,
        preserves_key=False,
        clause="PARTITION BY",
    ),
):
    """A stream under another key (PARTITION BY, or for a join). Values stay, followed by the old key columns that the
    relation names.

    `explicit` is set for PARTITION BY: then rows with a null key are emitted. Before a join they are dropped.
    """

    input: Node
    relation: Relation
    keys: tuple[NamedExpression, ...]
    explicit: bool = True


@dataclass(frozen=True)
class Explode(
    Node, traits=Traits(stateful=False, timed=False, realtime=False, values=ValueColumns.INPUT, clause="SELECT")
):
    """Repeats each row for each item of the longest list of the table functions, which add columns; no list, no row."""

    input: Node
    relation: Relation
    functions: tuple[NamedExpression, ...]


@dataclass(frozen=True)
class Distinct(
    Node,
    traits=Traits(
        stateful=True,
        timed=False,
        realtime=False,
        values=ValueColumns.INPUT,
        not_upgradable="StreamDistinct",
        clause="DISTINCT",
    ),
):
    """Of rows that are equal in `on`, the first to arrive, unchanged; nulls equal each other.

    With a tumbling `window` it is the first of each window, by event time, and the values seen in a window are dropped
    when it closes. Without one they are remembered forever.
    """

    input: Node
    relation: Relation
    on: tuple[NamedExpression, ...]
    window: Window | None = None


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate: its column, the chosen overload, the arguments per row and its constants."""

    name: str
    function: str
    overload: AggregateOverload
    arguments: tuple[Expression, ...]
    constants: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Aggregate(
    Node,
    traits=Traits(
        stateful=True,
        timed=False,
        realtime=False,
        values=ValueColumns.OWN,
        preserves_key=False,
        in_pull_queries=True,
        clause="GROUP BY",
    ),
):
    """A table of aggregates per group and, for a stream, per window. On a table, rows that change are retracted.

    Its values are the results of `calls`, under their names. Rows with a null among `groups` belong to no group, and
    are dropped.
    """

    input: Node
    relation: Relation
    groups: tuple[NamedExpression, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Final(
    Node,
    traits=Traits(
        stateful=True,
        timed=True,
        realtime=False,
        values=ValueColumns.INPUT,
        not_in_sparksql="which windows have gone out depends on the time that the stream has reached",
        not_upgradable="TableSuppress",
    ),
):
    """EMIT FINAL: the last value of each window, once, when no more rows can arrive for it."""

    input: Node
    relation: Relation


@dataclass(frozen=True)
class Emit(
    Node,
    traits=Traits(
        stateful=True,
        timed=True,
        realtime=False,
        values=ValueColumns.INPUT,
        single_key_group=True,
        not_in_sparksql="when changes go on depends on the order of time and records",
        not_upgradable="TableEmit",
    ),
):
    """A table whose changes are emitted when the trigger fires: of several changes of a key only the net result.

    Discarding results requires an aggregate directly below, which is reset after each result.
    """

    input: Node
    relation: Relation
    trigger: Trigger
    results: Results = Results.ACCUMULATING


@dataclass(frozen=True)
class ProcessingTime(
    Node,
    traits=Traits(
        stateful=True,
        timed=False,
        realtime=False,
        values=ValueColumns.INPUT,
        single_key_group=True,
        not_in_sparksql="the time of arrival is not in the input",
        state_name="arrival",
    ),
):
    """A stream by processing time: each row's time is replaced by its arrival time."""

    input: Node
    relation: Relation


@dataclass(frozen=True)
class Process(
    Node,
    traits=Traits(
        stateful=True,
        timed=True,
        realtime=False,
        single_key_group=True,
        not_in_sparksql="a user operator is Python",
        state_name="operate",
    ),
):
    """Runs an operator, user-defined or an alert's rule, over a stream: state and timers per key."""

    input: Node
    relation: Relation
    operator: OperatorDefinition


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


@dataclass(frozen=True)
class StreamJoin(
    Node,
    traits=Traits(
        stateful=True,
        timed=True,
        realtime=False,
        values=ValueColumns.BOTH_INPUTS,
        single_key_group=True,
        not_in_sparksql="whether rows of two streams meet depends on the time of both, record by record",
        not_upgradable="StreamStreamJoin",
    ),
):
    """Stream-stream join: pairs of equal key at most `before` and `after` apart (right minus left).

    Without `grace` an unmatched row of an outer join is emitted at once, and again when a match arrives: the old
    behaviour of ksqlDB.
    """

    left: Node
    right: Node
    relation: Relation
    kind: JoinKind
    before: timedelta
    after: timedelta
    grace: timedelta | None = None


@dataclass(frozen=True)
class StreamTableJoin(
    Node,
    traits=Traits(
        stateful=True,
        timed=False,
        realtime=False,
        values=ValueColumns.BOTH_INPUTS,
        not_upgradable="StreamTableJoin",
        state_name="enrich",
    ),
):
    """Stream-table join: each row with the table's row of that key when it arrives (inner or left).

    With a `history` it is the table's row at the row's own time, for rows that are at most that late.
    """

    left: Node
    right: Node
    relation: Relation
    kind: JoinKind
    history: timedelta | None = None


@dataclass(frozen=True)
class TableJoin(
    Node,
    traits=Traits(
        stateful=True, timed=False, realtime=False, values=ValueColumns.BOTH_INPUTS, not_upgradable="TableTableJoin"
    ),
):
    """Table-table join on the same key: the result changes with either table."""

    left: Node
    right: Node
    relation: Relation
    kind: JoinKind


@dataclass(frozen=True)
class ForeignKeyJoin(
    Node,
    traits=Traits(
        stateful=True,
        timed=False,
        realtime=False,
        values=ValueColumns.BOTH_INPUTS,
        single_key_group=True,
        not_in_sparksql="a change on the right reaches many keys",
        not_upgradable="ForeignKeyTableTableJoin",
    ),
):
    """Table-table join in which `reference`, computed from the left row, is the right row's key (inner or left)."""

    left: Node
    right: Node
    relation: Relation
    kind: JoinKind
    reference: Expression


@dataclass(frozen=True)
class Union(Node, traits=Traits(stateful=False, timed=False, realtime=False)):
    """All rows of both streams, in the order of arrival."""

    left: Node
    right: Node
    relation: Relation


@dataclass(frozen=True)
class TopN(
    Node,
    traits=Traits(
        stateful=True,
        timed=False,
        realtime=False,
        single_key_group=True,
        not_in_sparksql="what leaves the first rows is a change of its own",
        state_name="top",
    ),
):
    """ORDER BY ... LIMIT: a table that holds the first `count` rows of its input by `order`."""

    input: Node
    relation: Relation
    order: tuple[tuple[Expression, bool], ...]
    """Expressions, each with whether it is descending."""
    count: int


@dataclass(frozen=True)
class Sink(Node, traits=Traits(stateful=False, timed=False, realtime=True, in_pull_queries=True)):
    """The sink: a topic, written in these formats. `timestamp` is the column that becomes the record's time."""

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
    """Codes of problems that stop the query, each with the setting that says so; others become dead letters."""
    every_change: bool = field(default=False, compare=False)
    """The statement's settings request every change of a table, where the changes of a batch would be merged."""
    alert: Alert | None = field(default=None, compare=False)
    """The alert whose rule the query runs, if any."""

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(node for node in walk(self.sink) if isinstance(node, Source))


def walk(node: Node) -> Iterator[Node]:
    """Yields the node and all below it, left before right."""
    yield node
    for below in node.inputs:
        yield from walk(below)
