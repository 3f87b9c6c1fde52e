"""Evaluates conditions with Arrow, over the log's columns: rows that do not match are dropped before Spark sees them.

A condition has the chain's semantics (see `plan.expressions`): a comparison with a null is false, and so is AND or OR
of one. Only what Arrow compares as the chain does is supported: a condition joined by AND is split into the parts that
Arrow evaluates and the rest, which Spark evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce, singledispatch
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.sparksql.column_types import NoColumnType, column_type
from headrace.engine.sparksql.expressions import column_name
from headrace.plan import expressions as ex
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.expressions import Compare, Expression
from headrace.plan.relations import Relation
from headrace.plan.rewrite import rewrite_nodes

Columns = Mapping[str, Any]
"""Arrays by their names in a frame (see `sparksql.frames`)."""

_EQUAL: Mapping[Compare, Callable[[Any, Any], Any]] = {Compare.EQUAL: pc.equal, Compare.NOT_EQUAL: pc.not_equal}
_ORDER: Mapping[Compare, Callable[[Any, Any], Any]] = {
    Compare.LESS: pc.less,
    Compare.LESS_OR_EQUAL: pc.less_equal,
    Compare.GREATER: pc.greater,
    Compare.GREATER_OR_EQUAL: pc.greater_equal,
}
_ORDERED = (ty.INT, ty.BIGINT, ty.DOUBLE, ty.STRING, ty.BYTES, ty.DATE, ty.TIME, ty.TIMESTAMP)
_WHOLE = {ty.INT, ty.BIGINT}


class NotExpressibleInArrow(Exception):
    """Arrow has no equivalent of the expression."""


def push_down_filter(plan: n.Query) -> tuple[Expression | None, n.Node]:
    """The condition that a plan's source can apply with Arrow, and the remaining plan above it."""
    pushed: list[Expression] = []

    def change(node: n.Node) -> n.Node:
        if not isinstance(node, n.Filter) or not isinstance(node.input, n.Source) or len(plan.sources) > 1:
            return node
        able, rest = split_condition(node.condition, node.input.relation)
        pushed.extend(() if able is None else (able,))
        return node.input if rest is None else replace(node, condition=rest)

    remaining = rewrite_nodes(plan.sink, change)
    return _all(pushed), remaining


def split_condition(condition: Expression, relation: Relation) -> tuple[Expression | None, Expression | None]:
    """The part that Arrow can evaluate, and the rest; both must hold."""
    able, left = list[Expression](), list[Expression]()
    for part in ex.operands(condition, ex.And):
        (able if _is_able(part, relation) else left).append(part)
    return _all(able), _all(left)


def filter_mask(condition: Expression, relation: Relation, columns: Columns) -> pa.BooleanArray:
    """For every row, whether the condition holds."""
    return pc.fill_null(evaluate(condition, relation, columns), False)


def _all(parts: list[Expression]) -> Expression | None:
    return reduce(lambda left, right: ex.And(ty.BOOLEAN, left, right), parts) if parts else None


def _is_able(condition: Expression, relation: Relation) -> bool:
    """Evaluates it over no rows, as a test."""
    used = [part for part in ex.walk(condition) if isinstance(part, ex.Column)]
    try:
        evaluate(condition, relation, {column_name(c.name, relation): pa.array([], column_type(c.type)) for c in used})
    except (NotExpressibleInArrow, NoColumnType, pa.ArrowException):
        return False
    return bool(used)


@singledispatch
def evaluate(e: Expression, relation: Relation, columns: Columns) -> Any:
    """An array, or one value for all rows."""
    raise NotExpressibleInArrow(type(e).__name__)


@evaluate.register
def _(e: ex.Column, relation: Relation, columns: Columns) -> Any:
    return columns[column_name(e.name, relation)]


@evaluate.register
def _(e: ex.Literal, relation: Relation, columns: Columns) -> Any:
    return pa.scalar(e.value, column_type(e.type))


@evaluate.register
def _(e: ex.Comparison, relation: Relation, columns: Columns) -> Any:
    kinds = {e.left.type, e.right.type}
    compare = _EQUAL.get(e.op) or _ORDER.get(e.op)
    if compare is None or not (len(kinds) == 1 or kinds == _WHOLE):
        raise NotExpressibleInArrow(f"{e.left.type} {e.op} {e.right.type}")
    if e.left.type not in _ORDERED and (e.op in _ORDER or e.left.type != ty.BOOLEAN):
        raise NotExpressibleInArrow(f"{e.left.type} {e.op}")
    return pc.fill_null(compare(evaluate(e.left, relation, columns), evaluate(e.right, relation, columns)), False)


@evaluate.register
def _(e: ex.And, relation: Relation, columns: Columns) -> Any:
    return pc.and_(filter_mask(e.left, relation, columns), filter_mask(e.right, relation, columns))


@evaluate.register
def _(e: ex.Or, relation: Relation, columns: Columns) -> Any:
    return pc.or_(filter_mask(e.left, relation, columns), filter_mask(e.right, relation, columns))


@evaluate.register
def _(e: ex.Not, relation: Relation, columns: Columns) -> Any:
    return pc.invert(evaluate(e.value, relation, columns))


@evaluate.register
def _(e: ex.IsNull, relation: Relation, columns: Columns) -> Any:
    return pc.is_null(evaluate(e.value, relation, columns))


@evaluate.register
def _(e: ex.In, relation: Relation, columns: Columns) -> Any:
    comparisons = [ex.Comparison(ty.BOOLEAN, Compare.EQUAL, e.value, item) for item in e.items]
    if not comparisons:
        raise NotExpressibleInArrow("nothing to be in")
    return reduce(pc.or_, [evaluate(one, relation, columns) for one in comparisons])
