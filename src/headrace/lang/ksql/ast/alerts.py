"""Statements of alerts and notifiers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headrace.lang.ksql.ast.expressions import Expr, StringLiteral
from headrace.lang.ksql.ast.node import Ast
from headrace.lang.ksql.ast.queries import SourceRef
from headrace.lang.ksql.ast.statements import Property, Statement


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
