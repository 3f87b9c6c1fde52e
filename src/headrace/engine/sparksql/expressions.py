"""Renders expressions as Spark SQL, where it can express exactly what `headrace.plan.expressions` defines.

Each kind of expression has one renderer. It returns a `SqlFragment`; an expression without an exact form raises
`NotExpressible` with the reason, and the whole expression then runs in its Python form. Spark's errors are avoided:
what fails in the chain is null here and marked as `fails`. The chain gives null for an expression any part of which
fails, so such a part may be an operand of operators that propagate nulls, but not of those that turn a null into
something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce, singledispatch
from math import copysign, isfinite, isnan
from typing import Any

import pyarrow as pa

from headrace.engine.sparksql import arithmetic
from headrace.engine.sparksql.arithmetic import NotExpressible
from headrace.engine.sparksql.column_types import MAX_DECIMAL_DIGITS, NoColumnType, sql_type
from headrace.plan import expressions as ex
from headrace.plan import types as ty
from headrace.plan.expressions import Compare, Expression, Op
from headrace.plan.functions.declaration import NullRule
from headrace.plan.relations import Relation
from headrace.plan.scalar_operations import like_pattern

MAX_SQL_CHARS = 4000
"""Limit of the SQL's length. Operands that are needed twice are written twice; longer SQL is left to Python."""


@dataclass(frozen=True)
class SqlFragment:
    """SQL, and whether it is null where the chain fails."""

    text: str
    fails: bool = False


def to_sql(expression: Expression, relation: Relation) -> str:
    """The expression over the columns of a frame (see `frames`)."""
    try:
        sql_type(expression.type)
        return _piece(expression, relation).text
    except NoColumnType as error:
        raise NotExpressible(str(error)) from error


def never_fails(expression: Expression, relation: Relation) -> bool:
    """Whether it has a form in Spark, and no part of it can fail in the chain: so there is nothing to report."""
    try:
        return not any(_piece(part, relation).fails for part in ex.walk(expression))
    except (NotExpressible, NoColumnType):
        return False


def _piece(expression: Expression, relation: Relation) -> SqlFragment:
    if _may_be_minus_zero(expression):
        raise NotExpressible("a constant that may be -0.0, which Spark takes for 0.0")
    fragment = render(expression, relation)
    if len(fragment.text) > MAX_SQL_CHARS:
        raise NotExpressible("it is too long")
    return fragment


def _sound(expression: Expression, relation: Relation) -> str:
    """An operand whose nulls matter: it must not be one that can fail."""
    fragment = _piece(expression, relation)
    if fragment.fails:
        raise NotExpressible("a part that fails makes all of it null")
    return fragment.text


@singledispatch
def render(e: Expression, relation: Relation) -> SqlFragment:
    raise NotExpressible(f"{type(e).__name__} has no form in Spark")


@render.register
def _(e: ex.Column, relation: Relation) -> SqlFragment:
    return SqlFragment(column_name(e.name, relation))


def column_name(name: str, relation: Relation) -> str:
    """The frame's name of the column; values hide keys of the same name."""
    for prefix, columns in (("v", relation.value), ("k", relation.key)):
        for place, field in enumerate(columns):
            if field.name == name:
                return f"{prefix}{place}"
    return {ex.ROWTIME: "time", ex.WINDOWSTART: "window_start", ex.WINDOWEND: "window_end"}[name]


@render.register
def _(e: ex.Literal, relation: Relation) -> SqlFragment:
    return SqlFragment(literal(e.value, e.type))


def _may_be_minus_zero(e: ex.Expression) -> bool:
    """Spark's optimiser treats 0e0 and -0e0 in CASE WHEN p THEN 0e0 ELSE -0e0 END as one constant."""
    if e.type != ty.DOUBLE or ex.column_names(e):
        return False
    return not isinstance(e, ex.Literal) or (e.value == 0 and copysign(1.0, e.value) < 0)


def literal(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return f"cast(null as {sql_type(kind)})"
    if ty.is_nested(kind):
        raise NotExpressible("a constant list, map or struct")
    if kind == ty.STRING:
        return _text(value)
    if kind == ty.BYTES:
        return f"X'{value.hex()}'"
    if kind == ty.BOOLEAN:
        return "true" if value else "false"
    return f"cast('{_number(value)}' as {sql_type(kind)})"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _number(value: Any) -> str:
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return repr(value) if isinstance(value, float) else str(value)


# -- numbers --------------------------------------------------------------------------------------------------------


@render.register
def _(e: ex.Arithmetic, relation: Relation) -> SqlFragment:
    left, right = _piece(e.left, relation), _piece(e.right, relation)
    text = arithmetic.arithmetic(e, left.text, right.text)
    return SqlFragment(text, left.fails or right.fails or e.op in (Op.DIVIDE, Op.REMAINDER))


@render.register
def _(e: ex.Negate, relation: Relation) -> SqlFragment:
    value = _piece(e.value, relation)
    if e.type in (ty.INT, ty.BIGINT):
        return SqlFragment(arithmetic.negate(value.text, e.type), value.fails)
    return SqlFragment(f"(-{value.text})", value.fails)


# -- comparisons and logic ------------------------------------------------------------------------------------------


@render.register
def _(e: ex.Comparison, relation: Relation) -> SqlFragment:
    left, right = _sound(e.left, relation), _sound(e.right, relation)
    return SqlFragment(_compared(e.op, (left, e.left.type), (right, e.right.type)))


def _compared(op: Compare, left: tuple[str, pa.DataType], right: tuple[str, pa.DataType]) -> str:
    (a, b), doubles = _alike(left, right)
    if op in (Compare.DISTINCT, Compare.NOT_DISTINCT):
        if doubles:
            raise NotExpressible("Spark takes NaN for equal to itself")
        return f"({'not ' if op is Compare.DISTINCT else ''}({a} <=> {b}))"
    real = f" and not isnan({a}) and not isnan({b})" if doubles else ""
    if op is Compare.NOT_EQUAL:
        return f"({a} is not null and {b} is not null and not ({a} = {b}{real}))"
    return f"coalesce({a} {op} {b}{real}, false)"


def _alike(left: tuple[str, pa.DataType], right: tuple[str, pa.DataType]) -> tuple[tuple[str, str], bool]:
    """Both sides in a form that Spark compares as the chain does, and whether NaN may be among them."""
    (a, one), (b, other) = left, right
    kinds = {one, other}
    if kinds == {ty.DATE, ty.TIMESTAMP}:
        return (arithmetic.milliseconds(a, one), arithmetic.milliseconds(b, other)), False
    if ty.NULL in kinds or (one == other and not ty.is_nested(one)) or kinds == {ty.INT, ty.BIGINT}:
        return (a, b), one == ty.DOUBLE
    if kinds == {ty.INT, ty.DOUBLE}:
        return (f"cast({a} as double)", f"cast({b} as double)"), True
    wider = None if ty.DOUBLE in kinds else ty.wider_number(one, other)
    if wider is None or wider.precision > MAX_DECIMAL_DIGITS:
        raise NotExpressible(f"{one} compared with {other}")
    return (a, b), False


@render.register
def _(e: ex.And, relation: Relation) -> SqlFragment:
    return SqlFragment(f"({_true(e.left, relation)} and {_true(e.right, relation)})")


@render.register
def _(e: ex.Or, relation: Relation) -> SqlFragment:
    return SqlFragment(f"({_true(e.left, relation)} or {_true(e.right, relation)})")


def _true(e: Expression, relation: Relation) -> str:
    return f"coalesce({_sound(e, relation)}, false)"


@render.register
def _(e: ex.Not, relation: Relation) -> SqlFragment:
    value = _piece(e.value, relation)
    return SqlFragment(f"(not {value.text})", value.fails)


@render.register
def _(e: ex.IsNull, relation: Relation) -> SqlFragment:
    return SqlFragment(f"({_sound(e.value, relation)} is null)")


@render.register
def _(e: ex.In, relation: Relation) -> SqlFragment:
    value = (_sound(e.value, relation), e.value.type)
    comparisons = [_compared(Compare.EQUAL, value, (_sound(item, relation), item.type)) for item in e.items]
    return SqlFragment(f"({' or '.join(comparisons) or 'false'})")


@render.register
def _(e: ex.Like, relation: Relation) -> SqlFragment:
    if not isinstance(e.pattern, ex.Literal) or e.pattern.value is None:
        raise NotExpressible("a pattern that is not a constant")
    value = _piece(e.value, relation)
    text = _pattern(e.pattern.value, e.escape)
    if text.count("%") > 1 and not re.fullmatch("%[^%]*%", text):  # Spark would backtrack
        text = f"(?s)\\A(?:{like_pattern(e.pattern.value, e.escape)})\\z"
        return SqlFragment(f"({value.text} rlike {_text(text)})", value.fails)
    return SqlFragment(f"({value.text} like {_text(text)})", value.fails)


def _pattern(pattern: str, escape: str | None) -> str:
    """The pattern with Spark's escape, which is a backslash."""
    parts: list[str] = []
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            parts.append(_plain(next(chars, char)))
        else:
            parts.append(char if char in "%_" else _plain(char))
    return "".join(parts)


def _plain(char: str) -> str:
    return f"\\{char}" if char in "%_\\" else char


@render.register
def _(e: ex.Case, relation: Relation) -> SqlFragment:
    branches = [f"when {_true(c, relation)} then {_of_type(r, e.type, relation)}" for c, r in e.branches]
    last = _of_type(e.otherwise, e.type, relation) if e.otherwise else literal(None, e.type)
    return SqlFragment(f"case {' '.join(branches)} else {last} end")


def _of_type(e: Expression, kind: pa.DataType, relation: Relation) -> str:
    if e.type == ty.NULL:
        return literal(None, kind)
    if e.type != kind:
        raise NotExpressible(f"a {e.type} among values of type {kind}")
    return _sound(e, relation)


# -- casts ----------------------------------------------------------------------------------------------------------


@render.register
def _(e: ex.Cast, relation: Relation) -> SqlFragment:
    value = _piece(e.value, relation)
    return SqlFragment(arithmetic.cast(value.text, e.value.type, e.type), value.fails)


# -- values inside values -------------------------------------------------------------------------------------------


@render.register
def _(e: ex.Subscript, relation: Relation) -> SqlFragment:
    if not ty.is_array(e.value.type):
        raise NotExpressible("a map is a list of entries here")
    value, index = _piece(e.value, relation), _piece(e.index, relation)
    i = index.text
    place = f"case when {i} > 0 then {i} - 1 when {i} < 0 then size({value.text}) + {i} else -1 end"
    if e.index.type != ty.INT:
        raise NotExpressible("an array index that is not an INT")
    return SqlFragment(f"get({value.text}, {place})", value.fails or index.fails)


@render.register
def _(e: ex.FieldOf, relation: Relation) -> SqlFragment:
    value = _piece(e.value, relation)
    place = list(ty.fields(e.value.type)).index(e.name)
    return SqlFragment(f"{value.text}.f{place}", value.fails)


@render.register
def _(e: ex.MakeArray, relation: Relation) -> SqlFragment:
    items = [_guarded(item, e.type.value_type, relation) for item in e.items]
    return SqlFragment(f"cast(array({', '.join(items)}) as {sql_type(e.type)})")


@render.register
def _(e: ex.MakeStruct, relation: Relation) -> SqlFragment:
    kinds = list(ty.fields(e.type).values())
    items = [_guarded(value, kind, relation) for (_, value), kind in zip(e.fields, kinds, strict=True)]
    named = ", ".join(f"{item} as f{i}" for i, item in enumerate(items))
    return SqlFragment(f"struct({named})")


def _guarded(e: Expression, kind: pa.DataType, relation: Relation) -> str:
    """An item that fails is null by itself: the list or struct that contains it is not affected."""
    if e.type == ty.NULL:
        return literal(None, kind)
    if e.type != kind:
        raise NotExpressible(f"a {e.type} among values of type {kind}")
    return _piece(e, relation).text


# -- functions ------------------------------------------------------------------------------------------------------

_OWN = (ty.TIME, ty.TIMESTAMP)
_INTO = {ty.DATE: "date_from_unix_date({0})"}
_OUT_OF = {ty.DATE: "unix_date({0})"}


@render.register
def _(e: ex.Call, relation: Relation) -> SqlFragment:
    template = e.overload.spark
    if template is None:
        raise NotExpressible(f"{e.name} has no Spark form")
    passing = e.overload.nulls is NullRule.PASS
    pieces = [_piece(argument, relation) for argument in e.arguments]
    texts = [_into(p.text, a.type) for p, a in zip(pieces, e.arguments, strict=True)]
    return SqlFragment(_out_of(f"({template.format(*texts)})", e.type), not passing and any(p.fails for p in pieces))


def _into(text: str, kind: pa.DataType) -> str:
    """Converts a value to the template's own type."""
    if _holds_time(kind):
        raise NotExpressible("times lie as numbers here, and Spark's have another range")
    return _INTO.get(kind, "{0}").format(text)


def _out_of(text: str, kind: pa.DataType) -> str:
    if _holds_time(kind):
        raise NotExpressible("times lie as numbers here, and Spark's have another range")
    return _OUT_OF.get(kind, "{0}").format(text)


def _holds_time(kind: pa.DataType) -> bool:
    if ty.is_nested(kind):
        inside: Sequence[pa.DataType] = [kind.field(i).type for i in range(kind.num_fields)]
        return reduce(lambda holds, k: holds or _holds_time(k) or k == ty.DATE, inside, ty.is_map(kind))
    return kind in _OWN
