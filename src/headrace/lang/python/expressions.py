"""Column expressions: nodes of the KSQL syntax tree with Python's operators.

    >>> from headrace import col, when
    >>> (col.amount * 2 > 10) & col.page.like("/shop/%")
    (((`AMOUNT` * 2) > 10) AND (`PAGE` LIKE '/shop/%'))
    >>> when(col.amount > 100, "large").otherwise("small")
    (CASE WHEN (`AMOUNT` > 100) THEN 'large' ELSE 'small' END)

A Python value in an expression is a literal, also a string; where only columns are allowed (`select`, `group_by`, the
aggregates) a string is a column name. Names follow KSQL: they are upper case, unless they are in backticks.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from headrace.errors import BadPython, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.parser import parse_expression, parse_one
from headrace.lang.ksql.statement_formatter import expression_sql
from headrace.lang.python.call_site import call_site, locate
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN


class Expr:
    """An expression that is computed for each row."""

    __slots__ = ("alias_name", "node")
    __hash__ = None  # type: ignore[assignment]  # == makes an expression

    def __init__(self, node: ast.Expr, alias: str | None = None) -> None:
        self.node = node
        self.alias_name = alias

    def __repr__(self) -> str:
        return expression_sql(self.node) + (f" AS {self.alias_name}" if self.alias_name else "")

    def __bool__(self) -> bool:
        raise BadPython(
            "an expression has no truth value in Python",
            where=call_site().where,
            fix="write & for and, | for or, ~ for not, and put comparisons in parentheses",
        )

    # -- numbers and text -------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "/", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "%", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _binary(ast.Arithmetic, "%", other, self)

    def __neg__(self) -> Expr:
        return Expr(ast.Unary("-", self.node, span=call_site()))

    # -- conditions -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self.is_null() if other is None else _binary(ast.Comparison, "=", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self.is_not_null() if other is None else _binary(ast.Comparison, "<>", self, other)

    def __lt__(self, other: Any) -> Expr:
        return _binary(ast.Comparison, "<", self, other)

    def __le__(self, other: Any) -> Expr:
        return _binary(ast.Comparison, "<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _binary(ast.Comparison, ">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _binary(ast.Comparison, ">=", self, other)

    def __and__(self, other: Any) -> Expr:
        return _binary(ast.Logical, "AND", self, other)

    def __or__(self, other: Any) -> Expr:
        return _binary(ast.Logical, "OR", self, other)

    def __invert__(self) -> Expr:
        return Expr(ast.Not(self.node, span=call_site()))

    def is_null(self) -> Expr:
        return Expr(ast.IsNull(self.node, span=call_site()))

    def is_not_null(self) -> Expr:
        return Expr(ast.IsNull(self.node, negated=True, span=call_site()))

    def is_in(self, values: Iterable[Any]) -> Expr:
        """Whether it equals one of these."""
        return Expr(ast.InList(self.node, tuple(node_of(value) for value in values), span=call_site()))

    def between(self, low: Any, high: Any) -> Expr:
        """From `low` to `high`, both included."""
        return Expr(ast.Between(self.node, node_of(low), node_of(high), span=call_site()))

    def like(self, pattern: str) -> Expr:
        """`%` matches any text, `_` one character."""
        return Expr(ast.Like(self.node, node_of(pattern), span=call_site()))

    # -- others -----------------------------------------------------------------------------------------------------

    def alias(self, name: str) -> Expr:
        """Name the column."""
        return Expr(self.node, fold_name(name))

    def cast(self, kind: str) -> Expr:
        """Cast to another type, named as in KSQL: `col.n.cast("DECIMAL(10, 2)")`."""
        return Expr(ast.Cast(self.node, written_type(kind), span=call_site()))

    def field(self, name: str) -> Expr:
        """A field of a STRUCT."""
        return Expr(ast.Dereference(self.node, fold_name(name), span=call_site()))

    def __getitem__(self, index: Any) -> Expr:
        """An item of an ARRAY, counted from 1 as in KSQL, or of a MAP by its key."""
        return Expr(ast.Subscript(self.node, node_of(index), span=call_site()))

    def __iter__(self) -> Any:
        raise TypeError("an expression cannot be iterated in Python")


class _Columns:
    """`col.amount`, or `col("amount")` if the name is no Python identifier."""

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("__"):
            raise AttributeError(name)
        return self(name)

    def __call__(self, name: str) -> Expr:
        source, _, last = name.rpartition(".")
        return Expr(ast.Name(fold_name(last), fold_name(source) if source else None, span=call_site()))


col = _Columns()


def lit(value: Any) -> Expr:
    """A constant."""
    return Expr(node_of(value))


def expr(text: str) -> Expr:
    """An expression written in KSQL: `expr("UCASE(page) LIKE '/A%'")`."""
    return Expr(parse_expression(text))


class When(Expr):
    """The value of the first condition that is true; null if none is, and there is no `otherwise`."""

    __slots__ = ()

    def when(self, condition: Expr, value: Any) -> When:
        branches = (*self._case.branches, (node_of(condition), node_of(value)))
        return When(ast.Case(None, branches, span=call_site()))

    def otherwise(self, value: Any) -> Expr:
        return Expr(ast.Case(None, self._case.branches, node_of(value), span=call_site()))

    @property
    def _case(self) -> ast.Case:
        assert isinstance(self.node, ast.Case)
        return self.node


def when(condition: Expr, value: Any) -> When:
    """`when(col.n > 10, "many").when(col.n > 0, "few").otherwise("none")`."""
    return When(ast.Case(None, ((node_of(condition), node_of(value)),), span=call_site()))


# -- from Python to the syntax tree ---------------------------------------------------------------------------------


def fold_name(name: str) -> str:
    """Fold a name: upper case, unless it is in backticks."""
    if len(name) > 1 and name[0] == name[-1] == "`":
        return name[1:-1].replace("``", "`")
    return name.upper()


@contextmanager
def errors_at_call() -> Iterator[None]:
    """Report errors in a text with the position of the call that it was passed to."""
    try:
        yield
    except StatementError as error:
        error.span = None
        raise locate(error, call_site()) from None


def written_type(text: str) -> ast.Type:
    """Parse a KSQL type."""
    with errors_at_call():
        parsed = parse_expression(f"CAST(NULL AS {text})")
    assert isinstance(parsed, ast.Cast)
    return parsed.type


def written_columns(text: str, kind: str = "STREAM") -> tuple[ast.Element, ...]:
    """Parse KSQL columns: `user STRING KEY, page STRING`."""
    with errors_at_call():
        parsed = parse_one(f"CREATE {kind} s ({text});")
    assert isinstance(parsed, ast.CreateSource)
    return parsed.elements


def column_of(value: Expr | str) -> Expr:
    """Return a column where only columns are allowed; `*` is all of them."""
    return value if isinstance(value, Expr) else Expr(ast.Star(span=call_site())) if value == "*" else col(value)


def node_of(value: Any) -> ast.Expr:
    """Return the node of an expression or a literal."""
    if isinstance(value, Expr):
        return value.node
    for kind, make in _LITERALS.items():
        if isinstance(value, kind):
            return make(value)
    raise BadPython(
        f"{value!r} is of type {type(value).__name__}, which has no literal in KSQL",
        where=call_site().where,
        fix="pass a number, a string, a date or time, a list, a dict or an expression",
    )


def _binary(kind: Callable[..., Any], op: str, left: Any, right: Any) -> Expr:
    return Expr(kind(op, node_of(left), node_of(right), span=call_site()))


def _integer(value: int) -> ast.Expr:
    if not BIGINT_MIN <= value <= BIGINT_MAX:
        raise BadPython(
            f"{value} is out of range for BIGINT",
            where=call_site().where,
            fix="pass a Decimal with a decimal point, or a float",
        )
    return ast.IntegerLiteral(value, span=call_site())


def _float(value: float) -> ast.Expr:
    if not math.isfinite(value):
        raise BadPython(
            f"{value} has no literal in KSQL", where=call_site().where, fix='cast a string: lit("NaN").cast("DOUBLE")'
        )
    return ast.DoubleLiteral(value, span=call_site())


def _decimal(value: Decimal) -> ast.Expr:
    """Keep digits after the point: without them KSQL would read an integer."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        return _float(float(value))
    if exponent < 0:
        return ast.DecimalLiteral(value, span=call_site())
    digits = len(str(abs(int(value))))
    return ast.Cast(_integer(int(value)), ast.TypeName("DECIMAL", (digits, 0)), span=call_site())


def _timestamp(value: dt.datetime) -> ast.Expr:
    moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return ast.TypedLiteral("TIMESTAMP", moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}")


_LITERALS: dict[type, Callable[[Any], ast.Expr]] = {
    type(None): lambda value: ast.NullLiteral(span=call_site()),
    bool: lambda value: ast.BooleanLiteral(value, span=call_site()),
    int: _integer,
    float: _float,
    Decimal: _decimal,
    str: lambda value: ast.StringLiteral(value, span=call_site()),
    dt.datetime: _timestamp,
    dt.date: lambda value: ast.TypedLiteral("DATE", value.isoformat(), span=call_site()),
    dt.time: lambda value: ast.TypedLiteral("TIME", value.isoformat(), span=call_site()),
    list: lambda value: ast.ArrayMaker(tuple(map(node_of, value)), span=call_site()),
    dict: lambda value: ast.MapMaker(tuple((node_of(k), node_of(v)) for k, v in value.items()), span=call_site()),
}
"""Ordered: a bool is an int, and a datetime a date."""
