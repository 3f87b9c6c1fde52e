"""Type coercion: common types, and literals that are read as the type they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from headrace.errors import BadLiteral, HeadraceError
from headrace.lang.ksql import ast
from headrace.lang.ksql.formatter import type_text
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.casts import caster
from headrace.span import Span

TEMPORAL = (t.DATE, t.TIME, t.TIMESTAMP)


def cast_to(expression: e.Expression, kind: pa.DataType) -> e.Expression:
    """Casts an expression. A literal is converted at planning time; if that fails, the cast fails per row."""
    if expression.type == kind:
        return expression
    if isinstance(expression, e.Literal):
        if expression.value is None:
            return e.Literal(kind, None)
        convert = caster(expression.type, kind)
        if convert is not None:
            with suppress(ValueError, ArithmeticError):
                return e.Literal(kind, convert(expression.value))
    if isinstance(expression, e.Parameter) and expression.convert is None and kind in (t.BIGINT, t.DOUBLE):
        return e.Parameter(kind, expression.cell, caster(expression.type, kind))
    return e.Cast(kind, expression)


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Returns the type that all of them widen to without a cast, ignoring nulls; None if there is none."""
    common: pa.DataType = t.NULL
    for kind in kinds:
        if kind == t.NULL or kind == common:
            continue
        if common == t.NULL:
            common = kind
            continue
        wider = t.wider_number(common, kind) or _nested(common, kind)
        if wider is None:
            return None
        common = wider
    return common


def _nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if t.is_array(left) and t.is_array(right):
        item = common_type([left.value_type, right.value_type])
        return None if item is None else t.array(item)
    if t.is_map(left) and t.is_map(right):
        key = common_type([left.key_type, right.key_type])
        value = common_type([left.item_type, right.item_type])
        return None if key is None or value is None else t.map_of(key, value)
    if t.is_struct(left) and t.is_struct(right):
        return _structs(t.fields(left), t.fields(right))
    return None


def _structs(left: dict[str, pa.DataType], right: dict[str, pa.DataType]) -> pa.DataType | None:
    names = [*left, *(name for name in right if name not in left)]
    kinds = [common_type([s[name] for s in (left, right) if name in s]) for name in names]
    if any(kind is None for kind in kinds):
        return None
    return t.struct((name, kind) for name, kind in zip(names, kinds, strict=True) if kind is not None)


_FALSE = tuple("false"[:n] for n in range(1, 6)) + tuple("no"[:n] for n in range(1, 3))


def literal_as(text: str, kind: pa.DataType, span: Span) -> Any:
    """Converts text of the statement to a value of that type."""
    try:
        convert = caster(t.STRING, kind)
        if convert is None:
            raise ValueError(text)
        value = convert(text)
        if value is False and text.lower() not in _FALSE:
            raise ValueError(text)  # a cast reads anything but true as false; a literal must be one of the two
        return value
    except (ValueError, ArithmeticError, HeadraceError) as error:
        raise BadLiteral(
            f'invalid input syntax for type {type_text(kind).split("(")[0]}: "{text}".',
            span=span,
            fix=f"write a literal of type {type_text(kind)}",
        ) from error


def number_literal(text: str, kind: pa.DataType, span: Span) -> e.Literal:
    """Converts text that is compared with numbers to the narrowest number type."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise BadLiteral(
            f'invalid input syntax for type {type_text(kind).split("(")[0]}: "{text}".', span=span, fix="write a number"
        ) from None
    if kind == t.DOUBLE:
        return e.Literal(t.DOUBLE, float(value))
    if value.as_tuple().exponent == 0 and t.BIGINT_MIN <= value <= t.BIGINT_MAX:
        return e.Literal(t.INT if t.INT_MIN <= value <= t.INT_MAX else t.BIGINT, int(value))
    return e.Literal(decimal_type(value), value)


def decimal_type(value: Decimal) -> pa.DataType:
    """Returns the smallest decimal type that holds a literal as it is written."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    return t.decimal(max(len(digits), scale, 1), scale)


def unify(nodes: Sequence[ast.Expr], typed: Sequence[e.Expression]) -> list[e.Expression] | None:
    """Converts all to one type. A literal adapts to the others: text is parsed, a number becomes text.

    None if they have no common type.
    """
    loose = [isinstance(w, ast.StringLiteral) for w in nodes]
    firm = [x.type for x, is_loose in zip(typed, loose, strict=True) if not is_loose and x.type != t.NULL]
    base = common_type(firm) if firm else t.STRING
    if (
        base is None
        and t.STRING in firm
        and all(x.type in (t.STRING, t.NULL) or isinstance(x, e.Literal) for x in typed)
    ):
        base = t.STRING
    if base is None or (any(loose) and t.is_nested(base)):
        return None
    read = [_read(w, x, base) if is_loose else x for w, x, is_loose in zip(nodes, typed, loose, strict=True)]
    kind = t.STRING if base == t.STRING else common_type([x.type for x in read])
    return None if kind is None else [cast_to(x, kind) for x in read]


def _read(literal: ast.Expr, typed: e.Expression, base: pa.DataType) -> e.Expression:
    assert isinstance(literal, ast.StringLiteral)
    if base == t.STRING:
        return typed
    if t.is_number(base):
        return number_literal(literal.value, base, literal.span)
    return e.Literal(base, literal_as(literal.value, base, literal.span))
