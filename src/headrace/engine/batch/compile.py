"""Which way a plan is run over a bounded read: natively where Spark's operators give the very same answer, else by the
chain. `choose` says which, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.engine.batch.carriers import NotCarried, carrier
from headrace.engine.batch.paging import PLAIN, calls_of
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.expressions import ROWTIME, Expression, columns_of
from headrace.plan.functions import SCALARS

UNSUPPORTED: Mapping[type[n.Node], str] = {
    n.StreamJoin: "whether rows of two streams meet depends on the time of both, record by record",
    n.Final: "which windows have gone out depends on the time that the stream has reached",
    n.Emit: "when changes go on depends on the order of time and records",
    n.Arrival: "the time of arrival is not in the input",
    n.ForeignKeyJoin: "a change on the right reaches many keys",
    n.Top: "what leaves the first rows is a change of its own",
    n.Operate: "an operator of one's own is Python",
}
"""Kinds of node that only the chain runs, with the reason."""


class Way(StrEnum):
    NATIVE = "native"
    CHAIN = "chain"


@dataclass(frozen=True)
class Choice:
    way: Way
    reasons: tuple[str, ...] = ()
    """Why not natively."""


def choose(query: n.Query) -> Choice:
    """Natively if nothing speaks against it."""
    reasons = tuple(dict.fromkeys(reason for node in n.walk(query.sink) for reason in against(node)))
    return Choice(Way.CHAIN if reasons else Way.NATIVE, reasons)


def against(node: Any) -> Iterator[str]:
    """What speaks against running a node natively."""
    if type(node) in UNSUPPORTED:
        yield UNSUPPORTED[type(node)]
    yield from _SPECIAL.get(type(node), _nothing)(node)
    yield from _uncarried(node.relation)
    for name in calls_of(vars(node)):
        if not SCALARS[name.upper()].repeatable:
            yield f"{name} does not give the same each time"


def _nothing(node: Any) -> Iterator[str]:
    yield from ()


def _uncarried(relation: n.Relation) -> Iterator[str]:
    for field in relation.columns:
        try:
            carrier(field.type)
        except NotCarried as error:
            yield str(error)


def _aggregate(node: n.Aggregate) -> Iterator[str]:
    below: n.Relation = vars(node.input)["relation"]
    window = node.relation.window
    if below.kind is n.Kind.TABLE:
        yield "a group of a table that has lost all its rows stays, with what is left"
    if window is not None and window.kind not in (n.WindowKind.TUMBLING, n.WindowKind.HOPPING):
        yield f"{window.kind} windows depend on the order of the rows"
    yield from _keys([named.type for named in node.groups])


def _distinct(node: n.Distinct) -> Iterator[str]:
    if node.relation.window is not None:
        yield "rows that have windows in their key are compared by the chain alone"
    yield from _keys([named.type for named in node.on])


def _source(node: n.Source) -> Iterator[str]:
    if node.relation.kind is n.Kind.TABLE:
        yield from _keys([field.type for field in node.relation.key])


def _enrich(node: n.Enrich) -> Iterator[str]:
    if node.history is not None:
        yield "the table's past is looked up by time"
    if any(isinstance(below, n.Aggregate | n.TableJoin) for below in n.walk(node.right)):
        yield "what a computed table held at a moment is known to the chain alone"
    yield from _keys([field.type for field in node.relation.key])


def _over_join(node: n.Node) -> Iterator[str]:
    """A deletion on one side of a join moves the time of what is left, which a settled table does not know."""
    reads_time = any(ROWTIME in columns_of(e) for e in _expressions(vars(node)))
    if reads_time and any(isinstance(below, n.TableJoin) for below in n.walk(node)):
        yield "the time of a joined row depends on deletions before it"


def _table_join(node: n.TableJoin) -> Iterator[str]:
    yield from _keys([field.type for field in node.relation.key])


def _expressions(value: Any) -> Iterator[Expression]:
    """The outermost expressions in a node's own fields."""
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, dict | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _expressions(item)
    elif hasattr(value, "expression"):
        yield value.expression


def _keys(kinds: list[Any]) -> Iterator[str]:
    for kind in kinds:
        if kind not in PLAIN and not ty.is_decimal(kind):
            yield f"Spark has other equals among keys of type {kind}"


_SPECIAL: Mapping[type[n.Node], Callable[[Any], Iterator[str]]] = {
    n.Aggregate: _aggregate,
    n.Distinct: _distinct,
    n.Source: _source,
    n.Enrich: _enrich,
    n.TableJoin: _table_join,
    n.Filter: _over_join,
    n.Select: _over_join,
}
