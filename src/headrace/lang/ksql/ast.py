"""The syntax tree of KSQL: statements as written, before names are resolved.

Names are already folded: upper case unless they were quoted. Every node has its span in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from headrace.plan.expressions import ParameterCell
from headrace.plan.triggers import Results, Trigger
from headrace.span import NOWHERE, Span


@dataclass(frozen=True, kw_only=True)
class Ast:
    """Base class of all nodes; the span is ignored in comparisons."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def span_of(self, name: str | None) -> Span:
        """Returns the position of a name in the node; statements know it, other nodes return their own."""
        return self.span


# -- types ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypeName(Ast):
    """A primitive or user-defined type: `STRING`, `DECIMAL` with parameters (10, 2), `ADDRESS`."""

    name: str
    parameters: tuple[int, ...] = ()
    quoted: bool = False


@dataclass(frozen=True)
class ArrayType(Ast):
    item: Type


@dataclass(frozen=True)
class MapType(Ast):
    key: Type
    value: Type


@dataclass(frozen=True)
class StructType(Ast):
    fields: tuple[tuple[str, Type], ...]


Type = TypeName | ArrayType | MapType | StructType

# -- expressions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name(Ast):
    """A column; `source` is the qualifier before the dot, if any."""

    name: str
    source: str | None = None


@dataclass(frozen=True)
class IntegerLiteral(Ast):
    """An integer; INT if it fits, else BIGINT. The parser rejects larger ones."""

    value: int


@dataclass(frozen=True)
class DecimalLiteral(Ast):
    """`1.50`: the number of digits is preserved."""

    value: Decimal


@dataclass(frozen=True)
class DoubleLiteral(Ast):
    """`1.5E3`."""

    value: float


@dataclass(frozen=True)
class StringLiteral(Ast):
    value: str


@dataclass(frozen=True)
class BooleanLiteral(Ast):
    value: bool


@dataclass(frozen=True)
class NullLiteral(Ast):
    pass


@dataclass(frozen=True)
class ParameterLiteral(Ast):
    """A literal of a pull query that was replaced by a parameter: text, or a number that fits an INT."""

    cell: ParameterCell


@dataclass(frozen=True)
class TypedLiteral(Ast):
    """`DATE '2026-01-31'`, and the same for TIME and TIMESTAMP."""

    kind: str
    text: str


@dataclass(frozen=True)
class Arithmetic(Ast):
    """`op` is one of + - * / % and || (concatenation)."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Unary(Ast):
    """`-x` or `+x` of anything but a number literal."""

    op: str
    value: Expr


@dataclass(frozen=True)
class Comparison(Ast):
    """`op`: = <> < <= > >= or the words `IS DISTINCT FROM`, `IS NOT DISTINCT FROM`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Logical(Ast):
    """`op`: AND or OR."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Not(Ast):
    value: Expr


@dataclass(frozen=True)
class Between(Ast):
    value: Expr
    low: Expr
    high: Expr
    negated: bool = False


@dataclass(frozen=True)
class InList(Ast):
    value: Expr
    items: tuple[Expr, ...]
    negated: bool = False


@dataclass(frozen=True)
class Like(Ast):
    value: Expr
    pattern: Expr
    escape: str | None = None
    negated: bool = False


@dataclass(frozen=True)
class IsNull(Ast):
    value: Expr
    negated: bool = False


@dataclass(frozen=True)
class Case(Ast):
    """With an operand, each condition is a value it is compared to."""

    operand: Expr | None
    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None


@dataclass(frozen=True)
class Cast(Ast):
    value: Expr
    type: Type


@dataclass(frozen=True)
class Call(Ast):
    """A function. `COUNT(*)` has one argument, `Star`. Words such as DAYS are a `Unit`."""

    name: str
    arguments: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Unit(Ast):
    """MILLISECOND[S], SECOND[S], MINUTE[S], HOUR[S], DAY[S], WEEK[S], MONTH[S], YEAR[S], stored in the singular."""

    name: str


@dataclass(frozen=True)
class Subscript(Ast):
    value: Expr
    index: Expr


@dataclass(frozen=True)
class Dereference(Ast):
    """`address->city`."""

    value: Expr
    name: str


@dataclass(frozen=True)
class ArrayMaker(Ast):
    items: tuple[Expr, ...]


@dataclass(frozen=True)
class MapMaker(Ast):
    pairs: tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True)
class StructMaker(Ast):
    fields: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Lambda(Ast):
    parameters: tuple[str, ...]
    body: Expr


@dataclass(frozen=True)
class AtTimeZone(Ast):
    value: Expr
    zone: str


@dataclass(frozen=True)
class Star(Ast):
    """`*` or `source.*`."""

    source: str | None = None


@dataclass(frozen=True)
class StructStar(Ast):
    """`address->*`."""

    value: Expr


Expr = (
    Name
    | IntegerLiteral
    | DecimalLiteral
    | DoubleLiteral
    | StringLiteral
    | BooleanLiteral
    | NullLiteral
    | ParameterLiteral
    | TypedLiteral
    | Arithmetic
    | Unary
    | Comparison
    | Logical
    | Not
    | Between
    | InList
    | Like
    | IsNull
    | Case
    | Cast
    | Call
    | Unit
    | Subscript
    | Dereference
    | ArrayMaker
    | MapMaker
    | StructMaker
    | Lambda
    | AtTimeZone
    | Star
    | StructStar
)

# -- queries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SelectItem(Ast):
    """A column of the result; `Star` and `StructStar` have no alias."""

    value: Expr
    alias: str | None = None


@dataclass(frozen=True)
class AsOf(Ast):
    """FOR SYSTEM_TIME AS OF s.ROWTIME: the table as of that time, for rows at most `history` late."""

    time: Name
    history: timedelta | None = None


@dataclass(frozen=True)
class SourceRef(Ast):
    name: str
    alias: str | None = None
    as_of: AsOf | None = None


@dataclass(frozen=True)
class SubqueryRef(Ast):
    query: Query
    alias: str | None = None


@dataclass(frozen=True)
class OperatorRef(Ast):
    """Extension: a user-defined operator over a stream, per key, in the syntax of a SQL table function."""

    name: str
    source: SourceRef | SubqueryRef
    alias: str | None = None


@dataclass(frozen=True)
class Within(Ast):
    before: timedelta
    after: timedelta
    grace: timedelta | None = None


@dataclass(frozen=True)
class Join(Ast):
    """`kind`: INNER, LEFT, RIGHT or FULL."""

    left: From
    right: From
    kind: str
    on: Expr
    within: Within | None = None


From = SourceRef | SubqueryRef | OperatorRef | Join


@dataclass(frozen=True)
class WindowClause(Ast):
    """`kind`: TUMBLING, HOPPING, SLIDING or SESSION; `size` of a session is its gap. `name` is that of the old syntax
    `WINDOW w TUMBLING`. `processing`: by processing time.
    """

    kind: str
    size: timedelta
    advance: timedelta | None = None
    retention: timedelta | None = None
    grace: timedelta | None = None
    name: str | None = None
    idle: timedelta | None = None
    processing: bool = False


class Emit(StrEnum):
    CHANGES = "CHANGES"
    FINAL = "FINAL"


@dataclass(frozen=True)
class EmitWhen(Ast):
    """The trigger of EMIT, and what a result contains."""

    trigger: Trigger
    results: Results = Results.ACCUMULATING


@dataclass(frozen=True)
class OrderItem(Ast):
    value: Expr
    descending: bool = False


@dataclass(frozen=True)
class Distinct(Ast):
    """Only the first of the rows that are equal in these expressions; without any, in all columns of the result."""

    on: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Query(Ast):
    """SELECT. `union` holds further queries of UNION ALL."""

    select: tuple[SelectItem, ...]
    source: From
    window: WindowClause | None = None
    where: Expr | None = None
    group_by: tuple[Expr, ...] = ()
    partition_by: tuple[Expr, ...] = ()
    having: Expr | None = None
    emit: Emit | None = None
    emit_when: EmitWhen | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: int | None = None
    union: tuple[Query, ...] = ()
    distinct: Distinct | None = None


# -- statements -----------------------------------------------------------------------------------------------------


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


# -- alerts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangeOf(Ast):
    """`CHANGE(n) < -50 PERCENT WITHIN 1 HOUR`: the comparison as written."""

    comparison: Expr
    within: timedelta
    percent: bool = False


@dataclass(frozen=True)
class DeviationOf(Ast):
    """`n DEVIATES BY 3 FROM SAME HOUR OVER 14 DAYS`."""

    value: Expr
    by: Expr
    over: timedelta | None = None


@dataclass(frozen=True)
class NotifierRef(Ast):
    name: str


@dataclass(frozen=True)
class CreateAlert(Statement):
    """`when` is a condition or one of the two above; None is ABSENT. `lasting` is FOR, `per` may be empty."""

    name: str
    source: SourceRef
    when: Expr | ChangeOf | DeviationOf | None = None
    lasting: timedelta | None = None
    each: bool = False
    per: tuple[Expr, ...] = ()
    severity: StringLiteral | None = None
    message: Expr | None = None
    notify: tuple[NotifierRef, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropAlert(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class MuteAlert(Statement):
    """For one key, as its notices show it, or for all keys."""

    name: str
    duration: timedelta
    key: str | None = None


@dataclass(frozen=True)
class UnmuteAlert(Statement):
    name: str
    key: str | None = None


@dataclass(frozen=True)
class CreateNotifier(Statement):
    """`kind` is the channel: EMAIL, LOG, PUSH or WEBHOOK."""

    name: str
    kind: str
    properties: tuple[Property, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropNotifier(Statement):
    name: str
    if_exists: bool = False


def sources_named(part: Any) -> Iterator[str]:
    """Yields the sources that a statement's queries read, by their written names."""
    if isinstance(part, SourceRef):
        yield part.name
    elif isinstance(part, Ast):
        for one in fields(part):
            yield from sources_named(getattr(part, one.name))
    elif isinstance(part, tuple):
        for one in part:
            yield from sources_named(one)
