"""Columns and what is computed from them. An expression is a node of the KSQL grammar with Python's operators.

    >>> from headrace import col, when
    >>> (col.amount * 2 > 10) & col.page.like("/shop/%")
    (((`AMOUNT` * 2) > 10) AND (`PAGE` LIKE '/shop/%'))
    >>> when(col.amount > 100, "large").otherwise("small")
    (CASE WHEN (`AMOUNT` > 100) THEN 'large' ELSE 'small' END)

A Python value in an expression is a literal, a text too; where only columns make sense (`select`, `group_by`, the
aggregates) a text is a column's name. Names are KSQL's: upper case counts, unless they stand in backticks.
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
from headrace.lang.ksql.parser import parse_expression, parse_one
from headrace.lang.python.places import here, located
from headrace.lang.python.writing import written
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN


class Expr:
    """Something that is computed for each row."""

    __slots__ = ("alias_name", "node")
    __hash__ = None  # type: ignore[assignment]  # == makes an expression

    def __init__(self, node: ast.Expr, alias: str | None = None) -> None:
        self.node = node
        self.alias_name = alias

    def __repr__(self) -> str:
        return written(self.node) + (f" AS {self.alias_name}" if self.alias_name else "")

    def __bool__(self) -> bool:
        raise BadPython(
            "an expression is neither true nor false until a row comes",
            where=_where(),
            fix="write & for and, | for or, ~ for not, and put comparisons in brackets",
        )

    # -- numbers and text -------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "/", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "%", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _two(ast.Arithmetic, "%", other, self)

    def __neg__(self) -> Expr:
        return Expr(ast.Unary("-", self.node, span=here()))

    # -- conditions -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self.is_null() if other is None else _two(ast.Comparison, "=", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self.is_not_null() if other is None else _two(ast.Comparison, "<>", self, other)

    def __lt__(self, other: Any) -> Expr:
        return _two(ast.Comparison, "<", self, other)

    def __le__(self, other: Any) -> Expr:
        return _two(ast.Comparison, "<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _two(ast.Comparison, ">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _two(ast.Comparison, ">=", self, other)

    def __and__(self, other: Any) -> Expr:
        return _two(ast.Logical, "AND", self, other)

    def __or__(self, other: Any) -> Expr:
        return _two(ast.Logical, "OR", self, other)

    def __invert__(self) -> Expr:
        return Expr(ast.Not(self.node, span=here()))

    def is_null(self) -> Expr:
        return Expr(ast.IsNull(self.node, span=here()))

    def is_not_null(self) -> Expr:
        return Expr(ast.IsNull(self.node, negated=True, span=here()))

    def is_in(self, values: Iterable[Any]) -> Expr:
        """Whether it is one of these."""
        return Expr(ast.InList(self.node, tuple(node_of(value) for value in values), span=here()))

    def between(self, low: Any, high: Any) -> Expr:
        """From `low` to `high`, both included."""
        return Expr(ast.Between(self.node, node_of(low), node_of(high), span=here()))

    def like(self, pattern: str) -> Expr:
        """`%` stands for any text, `_` for one letter."""
        return Expr(ast.Like(self.node, node_of(pattern), span=here()))

    # -- others -----------------------------------------------------------------------------------------------------

    def alias(self, name: str) -> Expr:
        """The same as a column of that name."""
        return Expr(self.node, folded(name))

    def cast(self, kind: str) -> Expr:
        """As another type, named as in KSQL: `col.n.cast("DECIMAL(10, 2)")`."""
        return Expr(ast.Cast(self.node, written_type(kind), span=here()))

    def field(self, name: str) -> Expr:
        """A field of a STRUCT."""
        return Expr(ast.Dereference(self.node, folded(name), span=here()))

    def __getitem__(self, index: Any) -> Expr:
        """An item of an ARRAY, counted from 1 as in KSQL, or of a MAP by its key."""
        return Expr(ast.Subscript(self.node, node_of(index), span=here()))

    def __iter__(self) -> Any:
        raise TypeError("an expression has no items before a row comes")


class _Columns:
    """`col.amount`, or `col("amount")` where the name is no word of Python's."""

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("__"):
            raise AttributeError(name)
        return self(name)

    def __call__(self, name: str) -> Expr:
        source, _, last = name.rpartition(".")
        return Expr(ast.Name(folded(last), folded(source) if source else None, span=here()))


col = _Columns()


def lit(value: Any) -> Expr:
    """A value that is the same for each row."""
    return Expr(node_of(value))


def expr(text: str) -> Expr:
    """An expression written in KSQL: `expr("UCASE(page) LIKE '/A%'")`."""
    return Expr(parse_expression(text))


class When(Expr):
    """Of several conditions the first that is true decides; if none is, and there is no `otherwise`, it is null."""

    __slots__ = ()

    def when(self, condition: Expr, value: Any) -> When:
        branches = (*self._case.branches, (node_of(condition), node_of(value)))
        return When(ast.Case(None, branches, span=here()))

    def otherwise(self, value: Any) -> Expr:
        return Expr(ast.Case(None, self._case.branches, node_of(value), span=here()))

    @property
    def _case(self) -> ast.Case:
        assert isinstance(self.node, ast.Case)
        return self.node


def when(condition: Expr, value: Any) -> When:
    """`when(col.n > 10, "many").when(col.n > 0, "few").otherwise("none")`."""
    return When(ast.Case(None, ((node_of(condition), node_of(value)),), span=here()))


# -- from Python to the grammar -------------------------------------------------------------------------------------


def folded(name: str) -> str:
    """A name as it counts: upper case, unless it stands in backticks."""
    if len(name) > 1 and name[0] == name[-1] == "`":
        return name[1:-1].replace("``", "`")
    return name.upper()


@contextmanager
def refused_here() -> Iterator[None]:
    """What is wrong with a text is told with the place of the call that it was given to."""
    try:
        yield
    except StatementError as error:
        error.span = None
        raise located(error, here()) from None


def written_type(text: str) -> ast.Type:
    """A type as KSQL writes it."""
    with refused_here():
        parsed = parse_expression(f"CAST(NULL AS {text})")
    assert isinstance(parsed, ast.Cast)
    return parsed.type


def written_columns(text: str, kind: str = "STREAM") -> tuple[ast.Element, ...]:
    """Columns as KSQL writes them: `user STRING KEY, page STRING`."""
    with refused_here():
        parsed = parse_one(f"CREATE {kind} s ({text});")
    assert isinstance(parsed, ast.CreateSource)
    return parsed.elements


def column_of(value: Expr | str) -> Expr:
    """A column where only columns make sense; `*` is all of them."""
    return value if isinstance(value, Expr) else Expr(ast.Star(span=here())) if value == "*" else col(value)


def node_of(value: Any) -> ast.Expr:
    """An expression's node, or that of a literal."""
    if isinstance(value, Expr):
        return value.node
    for kind, make in _LITERALS.items():
        if isinstance(value, kind):
            return make(value)
    raise BadPython(
        f"{value!r} is of type {type(value).__name__}, which has no literal in KSQL",
        where=_where(),
        fix="give a number, a text, a date or time, a list, a dict or an expression",
    )


def _two(kind: Callable[..., Any], op: str, left: Any, right: Any) -> Expr:
    return Expr(kind(op, node_of(left), node_of(right), span=here()))


def _where() -> str:
    place = here()
    return f"{place.file}:{place.line}"


def _whole(value: int) -> ast.Expr:
    if not BIGINT_MIN <= value <= BIGINT_MAX:
        raise BadPython(f"{value} is beyond BIGINT", where=_where(), fix="give a Decimal with a point, or a float")
    return ast.IntegerLiteral(value, span=here())


def _float(value: float) -> ast.Expr:
    if not math.isfinite(value):
        raise BadPython(f"{value} has no literal in KSQL", where=_where(), fix='cast a text: lit("NaN").cast("DOUBLE")')
    return ast.DoubleLiteral(value, span=here())


def _decimal(value: Decimal) -> ast.Expr:
    """Without digits behind the point KSQL would read a whole number."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        return _float(float(value))
    if exponent < 0:
        return ast.DecimalLiteral(value, span=here())
    digits = len(str(abs(int(value))))
    return ast.Cast(_whole(int(value)), ast.TypeName("DECIMAL", (digits, 0)), span=here())


def _timestamp(value: dt.datetime) -> ast.Expr:
    moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return ast.TypedLiteral("TIMESTAMP", moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}")


_LITERALS: dict[type, Callable[[Any], ast.Expr]] = {
    type(None): lambda value: ast.NullLiteral(span=here()),
    bool: lambda value: ast.BooleanLiteral(value, span=here()),
    int: _whole,
    float: _float,
    Decimal: _decimal,
    str: lambda value: ast.StringLiteral(value, span=here()),
    dt.datetime: _timestamp,
    dt.date: lambda value: ast.TypedLiteral("DATE", value.isoformat(), span=here()),
    dt.time: lambda value: ast.TypedLiteral("TIME", value.isoformat(), span=here()),
    list: lambda value: ast.ArrayMaker(tuple(map(node_of, value)), span=here()),
    dict: lambda value: ast.MapMaker(tuple((node_of(k), node_of(v)) for k, v in value.items()), span=here()),
}
"""Ordered: a bool is an int, and a datetime a date."""
