"""Conditions by Arrow, over columns as the log has them: rows that do not fit are left out before Spark sees them.

A condition means what the chain says (see `plan.expressions`): a comparison with a null is false, and so is AND or OR
of one. Only what Arrow compares as the chain does is taken: a condition of which Arrow can do a part by AND is cut in
two, and Spark does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce, singledispatch
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.batch.carriers import NotCarried, carrier
from headrace.engine.batch.expressions import column_name
from headrace.plan import expressions as ex
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.expressions import Compare, Expression
from headrace.plan.nodes import Relation
from headrace.plan.rewriting import everywhere

Columns = Mapping[str, Any]
"""Arrays by their names in a frame (see `batch.frames`)."""

_EQUAL: Mapping[Compare, Callable[[Any, Any], Any]] = {Compare.EQUAL: pc.equal, Compare.NOT_EQUAL: pc.not_equal}
_ORDER: Mapping[Compare, Callable[[Any, Any], Any]] = {
    Compare.LESS: pc.less,
    Compare.LESS_OR_EQUAL: pc.less_equal,
    Compare.GREATER: pc.greater,
    Compare.GREATER_OR_EQUAL: pc.greater_equal,
}
_ORDERED = (ty.INT, ty.BIGINT, ty.DOUBLE, ty.STRING, ty.BYTES, ty.DATE, ty.TIME, ty.TIMESTAMP)
_WHOLE = {ty.INT, ty.BIGINT}


class NoArrow(Exception):
    """Arrow has no form of this that means the same."""


def cut_plan(plan: n.Query) -> tuple[Expression | None, n.Node]:
    """What the source of a plan can apply by Arrow, and the plan that is left above it."""
    found: list[Expression] = []

    def change(node: n.Node) -> n.Node:
        if not isinstance(node, n.Filter) or not isinstance(node.input, n.Source) or len(plan.sources) > 1:
            return node
        able, left = cut(node.condition, node.input.relation)
        found.extend(() if able is None else (able,))
        return node.input if left is None else replace(node, condition=left)

    left = everywhere(plan.sink, change)
    return _all(found), left


def cut(condition: Expression, relation: Relation) -> tuple[Expression | None, Expression | None]:
    """What Arrow can apply, and what is left for others; both must hold."""
    able, left = list[Expression](), list[Expression]()
    for part in ex.operands(condition, ex.And):
        (able if _is_able(part, relation) else left).append(part)
    return _all(able), _all(left)


def holding(condition: Expression, relation: Relation, columns: Columns) -> pa.BooleanArray:
    """For every row whether the condition holds."""
    return pc.fill_null(held(condition, relation, columns), False)


def _all(parts: list[Expression]) -> Expression | None:
    return reduce(lambda left, right: ex.And(ty.BOOLEAN, left, right), parts) if parts else None


def _is_able(condition: Expression, relation: Relation) -> bool:
    """Tried on no rows at all."""
    used = [part for part in ex.walk(condition) if isinstance(part, ex.Column)]
    try:
        held(condition, relation, {column_name(c.name, relation): pa.array([], carrier(c.type)) for c in used})
    except (NoArrow, NotCarried, pa.ArrowException):
        return False
    return bool(used)


@singledispatch
def held(e: Expression, relation: Relation, columns: Columns) -> Any:
    """An array, or one value for all rows."""
    raise NoArrow(type(e).__name__)


@held.register
def _(e: ex.Column, relation: Relation, columns: Columns) -> Any:
    return columns[column_name(e.name, relation)]


@held.register
def _(e: ex.Literal, relation: Relation, columns: Columns) -> Any:
    return pa.scalar(e.value, carrier(e.type))


@held.register
def _(e: ex.Comparison, relation: Relation, columns: Columns) -> Any:
    kinds = {e.left.type, e.right.type}
    compare = _EQUAL.get(e.op) or _ORDER.get(e.op)
    if compare is None or not (len(kinds) == 1 or kinds == _WHOLE):
        raise NoArrow(f"{e.left.type} {e.op} {e.right.type}")
    if e.left.type not in _ORDERED and (e.op in _ORDER or e.left.type != ty.BOOLEAN):
        raise NoArrow(f"{e.left.type} {e.op}")
    return pc.fill_null(compare(held(e.left, relation, columns), held(e.right, relation, columns)), False)


@held.register
def _(e: ex.And, relation: Relation, columns: Columns) -> Any:
    return pc.and_(holding(e.left, relation, columns), holding(e.right, relation, columns))


@held.register
def _(e: ex.Or, relation: Relation, columns: Columns) -> Any:
    return pc.or_(holding(e.left, relation, columns), holding(e.right, relation, columns))


@held.register
def _(e: ex.Not, relation: Relation, columns: Columns) -> Any:
    return pc.invert(held(e.value, relation, columns))


@held.register
def _(e: ex.IsNull, relation: Relation, columns: Columns) -> Any:
    return pc.is_null(held(e.value, relation, columns))


@held.register
def _(e: ex.In, relation: Relation, columns: Columns) -> Any:
    found = [ex.Comparison(ty.BOOLEAN, Compare.EQUAL, e.value, item) for item in e.items]
    if not found:
        raise NoArrow("nothing to be in")
    return reduce(pc.or_, [held(one, relation, columns) for one in found])
