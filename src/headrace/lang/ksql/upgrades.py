"""CREATE OR REPLACE of a query: the new plan takes over the old one's state, or is refused.

Filters and projections may come, go and change. Whatever keeps state must stay what it is: what is read, how it is
grouped and which columns the aggregates see.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import BadReplacement
from headrace.lang.ksql import ast
from headrace.plan import expressions as e
from headrace.plan import nodes
from headrace.plan.explain import text
from headrace.plan.nodes import Kind

_FIX = "drop and create it anew"
_NEVER = {
    nodes.Enrich: "StreamTableJoin",
    nodes.StreamJoin: "StreamStreamJoin",
    nodes.TableJoin: "TableTableJoin",
    nodes.ForeignKeyJoin: "ForeignKeyTableTableJoin",
    nodes.Final: "TableSuppress",
    nodes.Distinct: "StreamDistinct",
    nodes.Emit: "TableEmit",
}
"""Plans whose state a changed query cannot take over."""

Property = tuple[str, str, str]
"""Of a step of the plan: the step's name, what is looked at, and what it is."""


def check_upgrade(old: nodes.Node | None, new: nodes.Node, node: ast.Ast) -> None:
    """Whether `new` may go on where `old` stopped; None is a query that is no more."""
    for part in nodes.walk(new):
        windowed = isinstance(part, nodes.Aggregate) and part.relation.window is not None
        name = "StreamWindowedAggregate" if windowed else _NEVER.get(type(part))
        if name is not None:
            raise BadReplacement(f"Upgrades not yet supported for {name}", span=node.span, fix=_FIX)
    if old is not None:
        _check_kept(list(_properties(old)), list(_properties(new)), node)


def _check_kept(old: list[Property], new: list[Property], node: ast.Ast) -> None:
    if [p[:2] for p in old] != [p[:2] for p in new]:
        shown = [" of ".join(dict.fromkeys(p[0] for p in one)) for one in (old, new)]
        raise BadReplacement(f"Cannot become another plan: {shown[0]} vs. {shown[1]}", span=node.span, fix=_FIX)
    for (step, what, before), (_, _, after) in zip(old, new, strict=True):
        if before != after:
            raise BadReplacement(
                f"{step} must have matching {what}. Values differ: '{before}' vs. '{after}'", span=node.span, fix=_FIX
            )


def _properties(plan: nodes.Node) -> Iterator[Property]:
    """What must stay, from the last step to the sources."""
    for part in nodes.walk(plan):
        if isinstance(part, nodes.Source):
            yield f"{part.relation.kind.capitalize()}Source", "topicName", part.topic
        elif isinstance(part, nodes.Aggregate):
            step = "StreamAggregate" if _reads(part) is Kind.STREAM else "TableAggregate"
            yield step, "nonAggregateColumns", ", ".join(sorted(_seen(part)))
            yield step, "aggregationFunctions", ", ".join(map(_call_text, part.calls))
        elif isinstance(part, nodes.Distinct):
            yield _NEVER[nodes.Distinct], "columns", ", ".join(text(named.expression) for named in part.on)


def _call_text(call: nodes.AggregateCall) -> str:
    return f"{call.function}({', '.join((*map(text, call.arguments), *map(repr, call.constants)))})"


def _reads(aggregate: nodes.Aggregate) -> Kind:
    return next(s.relation.kind for s in nodes.walk(aggregate) if isinstance(s, nodes.Source))


def _seen(aggregate: nodes.Aggregate) -> set[str]:
    """The columns that reach the aggregate: of its groups, its arguments and the filters before it."""
    read = [g.expression for g in aggregate.groups] + [a for c in aggregate.calls for a in c.arguments]
    read += [f.condition for f in nodes.walk(aggregate) if isinstance(f, nodes.Filter)]
    return {name for expression in read for name in e.columns_of(expression)} - set(e.PSEUDO)
