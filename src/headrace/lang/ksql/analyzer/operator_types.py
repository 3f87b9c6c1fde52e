"""Types operators: arithmetic, comparison, IN, CASE, and the constructors of arrays, maps and structs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from headrace.errors import TypeMismatch
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.coercion import TEMPORAL, cast_to, common_type, literal_as, number_literal, unify
from headrace.lang.ksql.formatter import expression_text, type_text
from headrace.plan import expressions as e
from headrace.plan import types as t

_DIVISION_SCALE = 6

NAMES = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
    "IS DISTINCT FROM": "IS_DISTINCT_FROM",
    "IS NOT DISTINCT FROM": "IS_NOT_DISTINCT_FROM",
}
_EQUALITY = ("=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def arithmetic(node: ast.Arithmetic, left: e.Expression, right: e.Expression) -> e.Expression:
    if node.op == "||" or (node.op == "+" and t.STRING in (left.type, right.type)):
        return _concatenation(node, left, right)
    op = e.Op(node.op)
    if t.NULL in (left.type, right.type):
        raise TypeMismatch(
            f"Error processing expression: {expression_text(node)}. Arithmetic on types {type_text(left.type)} and "
            f"{type_text(right.type)} are not supported.",
            span=node.span,
            fix="give the null a type, for example CAST(NULL AS INT)",
        )
    kind = common_type([left.type, right.type])
    if kind is None or not all(t.is_number(k) for k in (left.type, right.type)):
        raise TypeMismatch(
            f"Error processing expression: {expression_text(node)}. Unsupported arithmetic types. "
            f"{_base(left.type)} {_base(right.type)}",
            span=node.span,
            fix="cast one side so that both are numbers",
        )
    if t.is_decimal(kind):
        sides = [cast_to(side, t.as_decimal(side.type)) for side in (left, right)]
        return e.Arithmetic(_decimal_result(op, sides[0].type, sides[1].type), op, sides[0], sides[1])
    return e.Arithmetic(kind, op, cast_to(left, kind), cast_to(right, kind))


def _base(kind: pa.DataType) -> str:
    return type_text(kind).split("(")[0].split("<")[0]


def _concatenation(node: ast.Arithmetic, left: e.Expression, right: e.Expression) -> e.Expression:
    for side in (left, right):
        if side.type not in (t.STRING, t.NULL):
            raise TypeMismatch(
                f"Error processing expression: {expression_text(node)}. Unsupported arithmetic types. "
                f"{_base(left.type)} {_base(right.type)}",
                span=node.span,
                fix=f"write CAST(... AS STRING) around the {type_text(side.type)}",
            )
    return e.Arithmetic(t.STRING, e.Op.ADD, cast_to(left, t.STRING), cast_to(right, t.STRING))


def _decimal_result(op: e.Op, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if op in (e.Op.ADD, e.Op.SUBTRACT):
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    elif op is e.Op.MULTIPLY:
        precision, scale = p1 + p2 + 1, s1 + s2
    elif op is e.Op.DIVIDE:
        scale = max(_DIVISION_SCALE, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    return t.decimal(min(precision, t.MAX_PRECISION), min(scale, t.MAX_PRECISION))


def comparison(node: ast.Comparison, left: e.Expression, right: e.Expression) -> e.Expression:
    return compared(node.op, node, node.left, left, node.right, right)


def compared(
    op: str, node: ast.Expr, left_node: ast.Expr, left: e.Expression, right_node: ast.Expr, right: e.Expression
) -> e.Expression:
    """Converts both sides to one type and compares them; the error shows both types."""
    if t.NULL in (left.type, right.type) and not op.startswith("IS"):
        raise TypeMismatch(
            f"Comparison with NULL not supported: {expression_text(left_node)} {op} {expression_text(right_node)}",
            span=node.span,
            fix="use IS NULL or IS NOT NULL",
        )
    sides = _magic(node, left, right) or _temporal(left, right) or _same(op, left, right)
    if sides is None:
        raise TypeMismatch(
            f"Cannot compare {expression_text(left_node)} ({type_text(left.type)}) to "
            f"{expression_text(right_node)} ({type_text(right.type)}) with {NAMES[op]}.",
            span=node.span,
            fix=f"CAST one side, for example CAST({expression_text(right_node)} AS {type_text(left.type)})",
        )
    return e.Comparison(t.BOOLEAN, e.Compare(op), *sides)


def _magic(node: ast.Expr, left: e.Expression, right: e.Expression) -> tuple[e.Expression, e.Expression] | None:
    """Allows a comparison of ROWTIME or a window bound with a text literal: '2026-01-31T12:00:00'."""
    for one, other in ((left, right), (right, left)):
        is_magic = isinstance(one, e.Column) and one.name.split(".")[-1] in e.PSEUDO
        if is_magic and isinstance(other, e.Literal) and other.type == t.STRING:
            number = e.Literal(t.BIGINT, literal_as(other.value, t.TIMESTAMP, node.span))
            return (one, number) if one is left else (number, one)
    return None


def _temporal(left: e.Expression, right: e.Expression) -> tuple[e.Expression, e.Expression] | None:
    kinds = {left.type, right.type}
    if t.STRING in kinds and len(kinds) == 2:
        (other,) = kinds - {t.STRING}
        return (cast_to(left, other), cast_to(right, other)) if other in TEMPORAL else None
    if kinds == {t.DATE, t.TIMESTAMP}:
        return cast_to(left, t.TIMESTAMP), cast_to(right, t.TIMESTAMP)
    return None


def _comparable(side: e.Expression, other: e.Expression) -> e.Expression:
    """Converts a decimal literal to DOUBLE if the other operand is a DOUBLE and the conversion is exact.

    No row needs a conversion then.
    """
    if other.type != t.DOUBLE or not isinstance(side, e.Literal) or not t.is_decimal(side.type):
        return side
    number = float(side.value)
    return e.Literal(t.DOUBLE, number) if Decimal(repr(number)) == side.value else side


def _same(op: str, left: e.Expression, right: e.Expression) -> tuple[e.Expression, e.Expression] | None:
    if t.is_number(left.type) and t.is_number(right.type):
        return _comparable(left, right), _comparable(right, left)  # numbers are compared exactly whatever their types
    if t.NULL in (left.type, right.type):
        return left, right
    if left.type != right.type:
        return None
    only_equality = left.type == t.BOOLEAN or t.is_nested(left.type)
    return None if only_equality and op not in _EQUALITY else (left, right)


def in_list(node: ast.InList, value: e.Expression, items: Sequence[e.Expression]) -> e.Expression:
    """Types an IN. A text literal is read as the type it is compared with."""
    if t.is_nested(value.type):
        items = [
            _read_inside(i, value.type, w) if t.is_nested(i.type) else i for i, w in zip(items, node.items, strict=True)
        ]
    all_as_one = unify((node.value, *node.items), (value, *items))
    if all_as_one is None:
        firm = [at for at, item in enumerate(items) if common_type([value.type, item.type]) is None]
        raise _no_operator(node, value.type, items[firm[0] if firm else 0], node.items[firm[0] if firm else 0])
    first, *rest = all_as_one
    return e.In(t.BOOLEAN, first, tuple(rest))


def _read_inside(item: e.Expression, target: pa.DataType, node: ast.Expr) -> e.Expression:
    """Reads text literals inside a constructor as the type the column has at that position."""

    def read(inner: e.Expression, kind: pa.DataType) -> e.Expression:
        if isinstance(inner, e.Literal) and inner.type == t.STRING and t.is_number(kind):
            return e.Literal(kind, None) if inner.value is None else number_literal(inner.value, kind, node.span)
        return inner

    if isinstance(item, e.MakeArray) and t.is_array(target):
        items = tuple(read(i, target.value_type) for i in item.items)
        kind = common_type([i.type for i in items])
        return item if kind is None else e.MakeArray(t.array(kind), tuple(cast_to(i, kind) for i in items))
    if isinstance(item, e.MakeMap) and t.is_map(target):
        pairs = tuple((read(k, target.key_type), read(v, target.item_type)) for k, v in item.pairs)
        key, value = common_type([k.type for k, _ in pairs]), common_type([v.type for _, v in pairs])
        if key is None or value is None:
            return item
        return e.MakeMap(t.map_of(key, value), tuple((cast_to(k, key), cast_to(v, value)) for k, v in pairs))
    if isinstance(item, e.MakeStruct) and t.is_struct(target):
        kinds = t.fields(target)
        members = tuple((n, read(v, kinds.get(n, v.type))) for n, v in item.fields)
        return e.MakeStruct(t.struct((n, v.type) for n, v in members), members)
    return item


def _no_operator(node: ast.InList, kind: pa.DataType, item: e.Expression, item_node: ast.Expr) -> TypeMismatch:
    return TypeMismatch(
        f"Invalid Predicate: operator does not exist: {type_text(kind)} = {type_text(item.type)} "
        f"({expression_text(item_node)})",
        span=node.span,
        fix="you might need to add explicit type casts",
    )
