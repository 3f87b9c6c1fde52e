"""Extracts from a condition the part that an index can look up, instead of a test of every row.

A selection is an OR of ANDs of bounds; a bound compares a column with constants. It holds for every row for which the
condition holds, and possibly for others: parts of an AND that are no bounds are left out, and an OR with such a part
selects everything. The caller must therefore still apply the condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from headrace.plan import expressions as ex
from headrace.plan.expressions import Compare, Expression

MAX_ALTERNATIVES = 64
"""Maximum number of alternatives; a condition that would have more is not expanded."""

_SWAPPED: Mapping[Compare, Compare] = {
    Compare.EQUAL: Compare.EQUAL,
    Compare.NOT_DISTINCT: Compare.EQUAL,
    Compare.LESS: Compare.GREATER,
    Compare.LESS_OR_EQUAL: Compare.GREATER_OR_EQUAL,
    Compare.GREATER: Compare.LESS,
    Compare.GREATER_OR_EQUAL: Compare.LESS_OR_EQUAL,
}
"""The comparison to use when the two sides are swapped; comparisons that bound nothing are missing."""


@dataclass(frozen=True)
class Bound:
    """A comparison of a column with a value, or with one of several values for EQUAL. No value is null.

    Values may be parameters until they are `given`.
    """

    column: str
    op: Compare
    values: tuple[Any, ...]

    def given(self) -> Bound:
        return Bound(self.column, self.op, tuple(v.value if isinstance(v, ex.Parameter) else v for v in self.values))


Alternative = tuple[Bound, ...]


@dataclass(frozen=True)
class Selection:
    """The rows for which all bounds of at least one alternative hold."""

    alternatives: tuple[Alternative, ...]

    def given(self) -> Selection:
        """Returns the selection with the current values of its parameters."""
        return Selection(tuple(tuple(bound.given() for bound in bounds) for bounds in self.alternatives))

    def __and__(self, other: Selection) -> Selection:
        if len(self.alternatives) * len(other.alternatives) > MAX_ALTERNATIVES:
            return min(self, other, key=lambda one: len(one.alternatives))
        return Selection(tuple(ours + theirs for ours in self.alternatives for theirs in other.alternatives))

    def __or__(self, other: Selection) -> Selection:
        either = (*self.alternatives, *other.alternatives)
        return EVERYTHING if () in either or len(either) > MAX_ALTERNATIVES else Selection(either)


EVERYTHING = Selection(((),))


def extract_selection(condition: Expression | None) -> Selection:
    """Returns the bounds in a condition; all rows if there are none."""
    if condition is None:
        return EVERYTHING
    if isinstance(condition, ex.And):
        return reduce(Selection.__and__, map(extract_selection, ex.operands(condition, ex.And)))
    if isinstance(condition, ex.Or):
        return _joined([extract_selection(part) for part in ex.operands(condition, ex.Or)])
    bound = _bound(condition)
    return EVERYTHING if bound is None else Selection(((bound,),))


def _joined(parts: list[Selection]) -> Selection:
    """Combines the parts of an OR; equalities of one column, however many, become one bound."""
    bounds = [part.alternatives[0][0] for part in parts if len(part.alternatives) == 1 == len(part.alternatives[0])]
    alike = {(bound.column, bound.op) for bound in bounds}
    if len(bounds) == len(parts) and len(alike) == 1 and bounds[0].op is Compare.EQUAL:
        values = tuple(value for bound in bounds for value in bound.values)
        return Selection(((Bound(bounds[0].column, Compare.EQUAL, values),),))
    return reduce(Selection.__or__, parts)


def _bound(condition: Expression) -> Bound | None:
    if isinstance(condition, ex.In):
        return _one_of(condition.value, condition.items)
    if not isinstance(condition, ex.Comparison) or condition.op not in _SWAPPED:
        return None
    left, right = condition.left, condition.right
    if isinstance(right, ex.Column):
        return _compared(right, _SWAPPED[condition.op], left)
    op = Compare.EQUAL if condition.op is Compare.NOT_DISTINCT else condition.op
    return _compared(left, op, right)


def _compared(column: Expression, op: Compare, constant: Expression) -> Bound | None:
    if not isinstance(column, ex.Column) or not isinstance(constant, _CONSTANTS) or constant.value is None:
        return None
    return Bound(column.name, op, (_constant_value(constant),))


def _one_of(column: Expression, items: tuple[Expression, ...]) -> Bound | None:
    """Returns the bound of an IN. A null among the items equals nothing."""
    if not isinstance(column, ex.Column) or not all(isinstance(item, _CONSTANTS) for item in items):
        return None
    values = tuple(_constant_value(item) for item in items if isinstance(item, _CONSTANTS) and item.value is not None)
    return Bound(column.name, Compare.EQUAL, values)


_CONSTANTS = (ex.Literal, ex.Parameter)


def _constant_value(constant: ex.Literal | ex.Parameter) -> Any:
    return constant.value if isinstance(constant, ex.Literal) else constant
