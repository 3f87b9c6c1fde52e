"""Expressions as written."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from headrace.lang.ksql.ast.node import Ast
from headrace.lang.ksql.ast.types import Type
from headrace.plan.expressions import ParameterCell


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
