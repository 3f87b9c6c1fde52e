"""Typed expressions over one row. Every node knows its type; names are resolved and casts are explicit.

Unless a node says otherwise, null in gives null out. A comparison with null is false, not null, as in ksqlDB. An
expression that fails (division by zero, a function that raises) is reported and gives null; a failing condition drops
the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.plan import types

if TYPE_CHECKING:
    from headrace.plan.functions.declaration import Overload


class Op(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"


class Compare(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    DISTINCT = "IS DISTINCT FROM"
    NOT_DISTINCT = "IS NOT DISTINCT FROM"


@dataclass(frozen=True)
class Expression:
    """Base class of all expressions."""

    type: pa.DataType


@dataclass(frozen=True)
class Column(Expression):
    """A column of the row, a key column, or one of the names in `PSEUDO`."""

    name: str


ROWTIME = "ROWTIME"
WINDOWSTART = "WINDOWSTART"
WINDOWEND = "WINDOWEND"
BOUNDS = (WINDOWSTART, WINDOWEND)
PSEUDO = (ROWTIME, *BOUNDS)
"""Names that are no stored column: the record's time, and the bounds of its key's window."""


@dataclass(frozen=True)
class Literal(Expression):
    """A constant, as its chain value."""

    value: Any


class ParameterCell:
    """Holds the value of a parameter; compares by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True)
class Parameter(Expression):
    """A value, never null, that may change with each execution of a prepared query; `convert` casts it to the type."""

    cell: ParameterCell
    convert: Callable[[Any], Any] | None = None

    @property
    def value(self) -> Any:
        return self.cell.value if self.convert is None else self.convert(self.cell.value)


@dataclass(frozen=True)
class Arithmetic(Expression):
    """Both sides already have the type they are computed in; for decimals `type` is the result's."""

    op: Op
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Negate(Expression):
    value: Expression


@dataclass(frozen=True)
class Comparison(Expression):
    """Never null. With DISTINCT and NOT_DISTINCT null equals null; with the others a null on any side gives false."""

    op: Compare
    left: Expression
    right: Expression


@dataclass(frozen=True)
class And(Expression):
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Or(Expression):
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Not(Expression):
    value: Expression


@dataclass(frozen=True)
class IsNull(Expression):
    """Never null."""

    value: Expression


@dataclass(frozen=True)
class In(Expression):
    """True if the value equals one of the items; never null."""

    value: Expression
    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Like(Expression):
    """`%` is any text, `_` any one character; `escape` makes the next one plain."""

    value: Expression
    pattern: Expression
    escape: str | None


@dataclass(frozen=True)
class Case(Expression):
    """Lazy: a branch is computed only when its condition is the first that holds."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True)
class Cast(Expression):
    value: Expression


@dataclass(frozen=True)
class Subscript(Expression):
    """An array's item, counted from 1 or, when negative, from the end; or a map's value. Null if it does not exist."""

    value: Expression
    index: Expression


@dataclass(frozen=True)
class FieldOf(Expression):
    """A struct's field."""

    value: Expression
    name: str


@dataclass(frozen=True)
class MakeArray(Expression):
    items: tuple[Expression, ...]


@dataclass(frozen=True)
class MakeMap(Expression):
    pairs: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True)
class MakeStruct(Expression):
    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Lambda(Expression):
    """An argument of a function such as TRANSFORM; `type` is the body's. Parameters hide columns of the same name.

    Inside, arithmetic, logic and conditions of CASE fail on a null, and the call with them, as in ksqlDB.
    """

    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True)
class Variable(Expression):
    """A parameter of the enclosing lambda."""

    name: str


@dataclass(frozen=True)
class Call(Expression):
    """A scalar function with its chosen overload; arguments already have the types the overload requires."""

    name: str
    overload: Overload
    arguments: tuple[Expression, ...]

    @property
    def can_grow(self) -> bool:
        """Whether the result may be much larger than the arguments."""
        return not (self.overload.never_grows or types.is_fixed_size(self.type))


@dataclass(frozen=True)
class NamedExpression:
    """An expression and the name of its column."""

    name: str
    expression: Expression

    @property
    def type(self) -> pa.DataType:
        return self.expression.type


def children(expression: Expression) -> Iterator[Expression]:
    """Yields the direct sub-expressions."""
    for field in fields(expression):
        yield from _inside(getattr(expression, field.name))


def _inside(value: Any) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _inside(item)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yields the expression and all its sub-expressions, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def operands(e: Expression, kind: type[And | Or]) -> Iterator[Expression]:
    """Yields the operands of a chain of one operator, of any length, in order."""
    waiting = [e]
    while waiting:
        top = waiting.pop()
        if isinstance(top, kind):
            waiting += [top.right, top.left]
        else:
            yield top


def column_names(expression: Expression) -> set[str]:
    """Returns the names of the columns it reads."""
    return {e.name for e in walk(expression) if isinstance(e, Column)}
