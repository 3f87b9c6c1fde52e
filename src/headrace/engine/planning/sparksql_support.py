"""Decides whether a plan over a bounded read runs on Spark SQL: where it gives exactly the same result as the chain.

Else the chain runs it. `choose_batch_mode` says which, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.engine.sparksql.column_types import NoColumnType, column_type
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.analysis.partitioning import HASHABLE_TYPES, scalar_calls
from headrace.plan.analysis.rewrite import own_expressions
from headrace.plan.expressions import ROWTIME, column_names
from headrace.plan.functions import SCALARS
from headrace.plan.relations import Kind, Relation, WindowKind


class BatchMode(StrEnum):
    NATIVE = "native"
    CHAIN = "chain"


@dataclass(frozen=True)
class BatchChoice:
    mode: BatchMode
    reasons: tuple[str, ...] = ()
    """Why not natively."""


def choose_batch_mode(query: n.Query) -> BatchChoice:
    """Natively if there is no obstacle."""
    reasons = tuple(dict.fromkeys(reason for node in n.walk(query.sink) for reason in sparksql_obstacles(node)))
    return BatchChoice(BatchMode.CHAIN if reasons else BatchMode.NATIVE, reasons)


def sparksql_obstacles(node: Any) -> Iterator[str]:
    """The obstacles to running a node natively."""
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


def _source(node: n.Source) -> Iterator[str]:
    if node.relation.kind is Kind.TABLE:
        yield from _keys([field.type for field in node.relation.key])


def _enrich(node: n.StreamTableJoin) -> Iterator[str]:
    if node.history is not None:
        yield "the table's past is looked up by time"
    if any(isinstance(below, n.Aggregate | n.TableJoin) for below in n.walk(node.right)):
        yield "what a computed table held at a moment is known to the chain alone"
    yield from _keys([field.type for field in node.relation.key])


def _over_join(node: n.Node) -> Iterator[str]:
    """A deletion on one side of a join changes the time of the remaining row, which the last rows do not show."""
    reads_time = any(ROWTIME in column_names(e) for e in own_expressions(node))
    if reads_time and any(isinstance(below, n.TableJoin) for below in n.walk(node)):
        yield "the time of a joined row depends on deletions before it"


def _table_join(node: n.TableJoin) -> Iterator[str]:
    yield from _keys([field.type for field in node.relation.key])


def _keys(kinds: list[Any]) -> Iterator[str]:
    for kind in kinds:
        if kind not in HASHABLE_TYPES and not ty.is_decimal(kind):
            yield f"Spark has other equals among keys of type {kind}"


_SPECIAL: Mapping[type[n.Node], Callable[[Any], Iterator[str]]] = {
    n.Aggregate: _aggregate,
    n.Distinct: _distinct,
    n.Source: _source,
    n.StreamTableJoin: _enrich,
    n.TableJoin: _table_join,
    n.Filter: _over_join,
    n.Select: _over_join,
}
