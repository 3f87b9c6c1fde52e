"""Expressions as Spark SQL, where Spark can be made to mean exactly what `headrace.plan.expressions` says.

Each kind of expression has one writer. It gives a `Piece`; what has no exact form raises `NoNative` with the reason,
and the whole expression then runs through its Python form. Spark's errors are kept out: what fails in the chain is null
here and marked as `fails`. The chain gives null for an expression any part of which fails, so such a part may stand
under operators that hand nulls on, and not under those that make something else of a null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce, singledispatch
from math import copysign, isfinite, isnan
from typing import Any

import pyarrow as pa

from headrace.engine.batch import numbers
from headrace.engine.batch.carriers import WIDEST, NotCarried, sql_type
from headrace.engine.batch.numbers import NoNative
from headrace.plan import expressions as ex
from headrace.plan import types as ty
from headrace.plan.expressions import Compare, Expression, Op
from headrace.plan.functions.declare import Nulls
from headrace.plan.nodes import Relation
from headrace.plan.operations import like_pattern

LONGEST = 4000
"""Operands that are needed twice are written twice. A text that grows beyond this is left to Python."""


@dataclass(frozen=True)
class Piece:
    """SQL, and whether it is null where the chain fails."""

    text: str
    fails: bool = False


def sql(expression: Expression, relation: Relation) -> str:
    """The expression over the columns of a frame (see `frames`)."""
    try:
        sql_type(expression.type)
        return _piece(expression, relation).text
    except NotCarried as error:
        raise NoNative(str(error)) from error


def never_fails(expression: Expression, relation: Relation) -> bool:
    """Whether it has a form in Spark, and no part of it fails in the chain: so there is nothing to report."""
    try:
        return not any(_piece(part, relation).fails for part in ex.walk(expression))
    except (NoNative, NotCarried):
        return False


def _piece(expression: Expression, relation: Relation) -> Piece:
    if _may_be_minus_zero(expression):
        raise NoNative("a constant that may be -0.0, which Spark takes for 0.0")
    made = write(expression, relation)
    if len(made.text) > LONGEST:
        raise NoNative("it is too long")
    return made


def _sound(expression: Expression, relation: Relation) -> str:
    """An operand whose nulls are looked at: it must not be one that fails."""
    made = _piece(expression, relation)
    if made.fails:
        raise NoNative("a part that fails makes all of it null")
    return made.text


@singledispatch
def write(e: Expression, relation: Relation) -> Piece:
    raise NoNative(f"{type(e).__name__} has no form in Spark")


@write.register
def _(e: ex.Column, relation: Relation) -> Piece:
    return Piece(column_name(e.name, relation))


def column_name(name: str, relation: Relation) -> str:
    """Where a frame has the column; values hide keys of the same name."""
    for letter, columns in (("v", relation.value), ("k", relation.key)):
        for place, field in enumerate(columns):
            if field.name == name:
                return f"{letter}{place}"
    return {ex.ROWTIME: "time", ex.WINDOWSTART: "window_start", ex.WINDOWEND: "window_end"}[name]


@write.register
def _(e: ex.Literal, relation: Relation) -> Piece:
    return Piece(literal(e.value, e.type))


def _may_be_minus_zero(e: ex.Expression) -> bool:
    """Spark's optimiser sees one constant in CASE WHEN p THEN 0e0 ELSE -0e0 END."""
    if e.type != ty.DOUBLE or ex.columns_of(e):
        return False
    return not isinstance(e, ex.Literal) or (e.value == 0 and copysign(1.0, e.value) < 0)


def literal(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return f"cast(null as {sql_type(kind)})"
    if ty.is_nested(kind):
        raise NoNative("a constant list, map or struct")
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


@write.register
def _(e: ex.Arithmetic, relation: Relation) -> Piece:
    left, right = _piece(e.left, relation), _piece(e.right, relation)
    text = numbers.arithmetic(e, left.text, right.text)
    return Piece(text, left.fails or right.fails or e.op in (Op.DIVIDE, Op.REMAINDER))


@write.register
def _(e: ex.Negate, relation: Relation) -> Piece:
    value = _piece(e.value, relation)
    if e.type in (ty.INT, ty.BIGINT):
        return Piece(numbers.minus(value.text, e.type), value.fails)
    return Piece(f"(-{value.text})", value.fails)


# -- comparisons and logic ------------------------------------------------------------------------------------------


@write.register
def _(e: ex.Comparison, relation: Relation) -> Piece:
    left, right = _sound(e.left, relation), _sound(e.right, relation)
    return Piece(_compared(e.op, (left, e.left.type), (right, e.right.type)))


def _compared(op: Compare, left: tuple[str, pa.DataType], right: tuple[str, pa.DataType]) -> str:
    (a, b), doubles = _alike(left, right)
    if op in (Compare.DISTINCT, Compare.NOT_DISTINCT):
        if doubles:
            raise NoNative("Spark takes NaN for equal to itself")
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
        return (numbers.milliseconds(a, one), numbers.milliseconds(b, other)), False
    if ty.NULL in kinds or (one == other and not ty.is_nested(one)) or kinds == {ty.INT, ty.BIGINT}:
        return (a, b), one == ty.DOUBLE
    if kinds == {ty.INT, ty.DOUBLE}:
        return (f"cast({a} as double)", f"cast({b} as double)"), True
    wider = None if ty.DOUBLE in kinds else ty.wider_number(one, other)
    if wider is None or wider.precision > WIDEST:
        raise NoNative(f"{one} compared with {other}")
    return (a, b), False


@write.register
def _(e: ex.And, relation: Relation) -> Piece:
    return Piece(f"({_true(e.left, relation)} and {_true(e.right, relation)})")


@write.register
def _(e: ex.Or, relation: Relation) -> Piece:
    return Piece(f"({_true(e.left, relation)} or {_true(e.right, relation)})")


def _true(e: Expression, relation: Relation) -> str:
    return f"coalesce({_sound(e, relation)}, false)"


@write.register
def _(e: ex.Not, relation: Relation) -> Piece:
    value = _piece(e.value, relation)
    return Piece(f"(not {value.text})", value.fails)


@write.register
def _(e: ex.IsNull, relation: Relation) -> Piece:
    return Piece(f"({_sound(e.value, relation)} is null)")


@write.register
def _(e: ex.In, relation: Relation) -> Piece:
    value = (_sound(e.value, relation), e.value.type)
    found = [_compared(Compare.EQUAL, value, (_sound(item, relation), item.type)) for item in e.items]
    return Piece(f"({' or '.join(found) or 'false'})")


@write.register
def _(e: ex.Like, relation: Relation) -> Piece:
    if not isinstance(e.pattern, ex.Literal) or e.pattern.value is None:
        raise NoNative("a pattern that is no constant")
    value = _piece(e.value, relation)
    text = _pattern(e.pattern.value, e.escape)
    if text.count("%") > 1 and not re.fullmatch("%[^%]*%", text):  # there Spark would go back and forth
        text = f"(?s)\\A(?:{like_pattern(e.pattern.value, e.escape)})\\z"
        return Piece(f"({value.text} rlike {_text(text)})", value.fails)
    return Piece(f"({value.text} like {_text(text)})", value.fails)


def _pattern(pattern: str, escape: str | None) -> str:
    """The pattern with Spark's escape, which is a backslash."""
    parts: list[str] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            parts.append(_plain(next(letters, letter)))
        else:
            parts.append(letter if letter in "%_" else _plain(letter))
    return "".join(parts)


def _plain(letter: str) -> str:
    return f"\\{letter}" if letter in "%_\\" else letter


@write.register
def _(e: ex.Case, relation: Relation) -> Piece:
    branches = [f"when {_true(c, relation)} then {_of_type(r, e.type, relation)}" for c, r in e.branches]
    last = _of_type(e.otherwise, e.type, relation) if e.otherwise else literal(None, e.type)
    return Piece(f"case {' '.join(branches)} else {last} end")


def _of_type(e: Expression, kind: pa.DataType, relation: Relation) -> str:
    if e.type == ty.NULL:
        return literal(None, kind)
    if e.type != kind:
        raise NoNative(f"a {e.type} among values of type {kind}")
    return _sound(e, relation)


# -- casts ----------------------------------------------------------------------------------------------------------


@write.register
def _(e: ex.Cast, relation: Relation) -> Piece:
    value = _piece(e.value, relation)
    return Piece(numbers.cast(value.text, e.value.type, e.type), value.fails)


# -- values inside values -------------------------------------------------------------------------------------------


@write.register
def _(e: ex.Subscript, relation: Relation) -> Piece:
    if not ty.is_array(e.value.type):
        raise NoNative("a map is a list of entries here")
    value, index = _piece(e.value, relation), _piece(e.index, relation)
    i = index.text
    place = f"case when {i} > 0 then {i} - 1 when {i} < 0 then size({value.text}) + {i} else -1 end"
    if e.index.type != ty.INT:
        raise NoNative("an array's index that is no INT")
    return Piece(f"get({value.text}, {place})", value.fails or index.fails)


@write.register
def _(e: ex.FieldOf, relation: Relation) -> Piece:
    value = _piece(e.value, relation)
    place = list(ty.fields(e.value.type)).index(e.name)
    return Piece(f"{value.text}.f{place}", value.fails)


@write.register
def _(e: ex.MakeArray, relation: Relation) -> Piece:
    items = [_guarded(item, e.type.value_type, relation) for item in e.items]
    return Piece(f"cast(array({', '.join(items)}) as {sql_type(e.type)})")


@write.register
def _(e: ex.MakeStruct, relation: Relation) -> Piece:
    kinds = list(ty.fields(e.type).values())
    items = [_guarded(value, kind, relation) for (_, value), kind in zip(e.fields, kinds, strict=True)]
    named = ", ".join(f"{item} as f{i}" for i, item in enumerate(items))
    return Piece(f"struct({named})")


def _guarded(e: Expression, kind: pa.DataType, relation: Relation) -> str:
    """What fails here is null by itself: the list or struct around it goes on."""
    if e.type == ty.NULL:
        return literal(None, kind)
    if e.type != kind:
        raise NoNative(f"a {e.type} among values of type {kind}")
    return _piece(e, relation).text


# -- functions ------------------------------------------------------------------------------------------------------

_OWN = (ty.TIME, ty.TIMESTAMP)
_INTO = {ty.DATE: "date_from_unix_date({0})"}
_OUT_OF = {ty.DATE: "unix_date({0})"}


@write.register
def _(e: ex.Call, relation: Relation) -> Piece:
    template = e.overload.spark
    if template is None:
        raise NoNative(f"{e.name} has no Spark form")
    passing = e.overload.nulls is Nulls.PASS
    pieces = [_piece(argument, relation) for argument in e.arguments]
    texts = [_into(p.text, a.type) for p, a in zip(pieces, e.arguments, strict=True)]
    return Piece(_out_of(f"({template.format(*texts)})", e.type), not passing and any(p.fails for p in pieces))


def _into(text: str, kind: pa.DataType) -> str:
    """A carried value as the template's own type."""
    if _holds_time(kind):
        raise NoNative("times lie as numbers here, and Spark's have another range")
    return _INTO.get(kind, "{0}").format(text)


def _out_of(text: str, kind: pa.DataType) -> str:
    if _holds_time(kind):
        raise NoNative("times lie as numbers here, and Spark's have another range")
    return _OUT_OF.get(kind, "{0}").format(text)


def _holds_time(kind: pa.DataType) -> bool:
    if ty.is_nested(kind):
        inside: Sequence[pa.DataType] = [kind.field(i).type for i in range(kind.num_fields)]
        return reduce(lambda found, k: found or _holds_time(k) or k == ty.DATE, inside, ty.is_map(kind))
    return kind in _OWN
