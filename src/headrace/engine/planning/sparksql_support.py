"""Says which nodes of a plan Spark SQL computes exactly as the chain does, and why not others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.engine.sparksql.column_types import NoColumnType, column_type
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.analysis.partitioning import HASHABLE_TYPES, scalar_calls
from headrace.plan.functions import SCALARS
from headrace.plan.relations import Kind, Relation, WindowKind


def sparksql_obstacles(node: Any) -> Iterator[str]:
    """The obstacles to running a node natively, whatever its mode reads and writes."""
    if node.traits.not_in_sparksql is not None:
        yield node.traits.not_in_sparksql
    yield from _SPECIAL.get(type(node), _nothing)(node)
    yield from _uncarried(node.relation)
    for name in scalar_calls(vars(node)):
        if not SCALARS[name.upper()].repeatable:
            yield f"{name} does not give the same each time"


def _nothing(node: Any) -> Iterator[str]:
    yield from ()


def _uncarried(relation: Relation) -> Iterator[str]:
    for field in relation.columns:
        try:
            column_type(field.type)
        except NoColumnType as error:
            yield str(error)


def _aggregate(node: n.Aggregate) -> Iterator[str]:
    below: Relation = vars(node.input)["relation"]
    window = node.relation.window
    if below.kind is Kind.TABLE:
        yield "a group of a table that has lost all its rows stays, with what is left"
    if window is not None and window.kind not in (WindowKind.TUMBLING, WindowKind.HOPPING):
        yield f"{window.kind} windows depend on the order of the rows"
    yield from _keys([named.type for named in node.groups])


def _distinct(node: n.Distinct) -> Iterator[str]:
    if node.relation.window is not None:
        yield "rows that have windows in their key are compared by the chain alone"
    yield from _keys([named.type for named in node.on])


def _keys(kinds: list[Any]) -> Iterator[str]:
    for kind in kinds:
        if kind not in HASHABLE_TYPES and not ty.is_decimal(kind):
            yield f"Spark has other equals among keys of type {kind}"


_SPECIAL: Mapping[type[n.Node], Callable[[Any], Iterator[str]]] = {
    n.Aggregate: _aggregate,
    n.Distinct: _distinct,
}
