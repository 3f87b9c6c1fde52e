"""SELECT and its clauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any

from headrace.lang.ksql.ast.expressions import Expr, Name
from headrace.lang.ksql.ast.node import Ast
from headrace.plan.triggers import Results, Trigger


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
