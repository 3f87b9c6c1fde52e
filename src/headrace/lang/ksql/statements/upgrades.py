"""Checks CREATE OR REPLACE of a query: the new plan must be able to resume from the old one's state.

Filters and projections may be added, removed and changed. Everything stateful must stay the same: the sources, the
grouping and the columns that the aggregates read.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import BadReplacement
from headrace.lang.ksql import ast
from headrace.plan import expressions as e
from headrace.plan import nodes
from headrace.plan.explain import expression_text
from headrace.plan.relations import Kind

_FIX = "drop it and create it again"

Property = tuple[str, str, str]
"""A step's name, a property of it, and the property's value."""


def check_upgrade(old: nodes.Node | None, new: nodes.Node, node: ast.Ast) -> None:
    """Raises unless `new` may resume from the state of `old`; None is a query that no longer exists."""
    for part in nodes.walk(new):
        windowed = isinstance(part, nodes.Aggregate) and part.relation.window is not None
        name = "StreamWindowedAggregate" if windowed else part.traits.not_upgradable
        if name is not None:
            raise BadReplacement(f"Upgrades not yet supported for {name}", span=node.span, fix=_FIX)
    if old is not None:
        _check_properties(list(_properties(old)), list(_properties(new)), node)


def _check_properties(old: list[Property], new: list[Property], node: ast.Ast) -> None:
    if [p[:2] for p in old] != [p[:2] for p in new]:
        steps = [" of ".join(dict.fromkeys(p[0] for p in one)) for one in (old, new)]
        raise BadReplacement(f"Cannot change the plan: {steps[0]} vs. {steps[1]}", span=node.span, fix=_FIX)
    for (step, what, before), (_, _, after) in zip(old, new, strict=True):
        if before != after:
            raise BadReplacement(
                f"{step} must have matching {what}. Values differ: '{before}' vs. '{after}'", span=node.span, fix=_FIX
            )


def _properties(plan: nodes.Node) -> Iterator[Property]:
    """Yields what must not change, from the last step to the sources."""
    for part in nodes.walk(plan):
        if isinstance(part, nodes.Source):
            yield f"{part.relation.kind.capitalize()}Source", "topicName", part.topic
        elif isinstance(part, nodes.Aggregate):
            step = "StreamAggregate" if _reads(part) is Kind.STREAM else "TableAggregate"
            yield step, "nonAggregateColumns", ", ".join(sorted(_seen(part)))
            yield step, "aggregationFunctions", ", ".join(map(_call_text, part.calls))
        elif isinstance(part, nodes.Distinct):
            yield "StreamDistinct", "columns", ", ".join(expression_text(named.expression) for named in part.on)


def _call_text(call: nodes.AggregateCall) -> str:
    return f"{call.function}({', '.join((*map(expression_text, call.arguments), *map(repr, call.constants)))})"


def _reads(aggregate: nodes.Aggregate) -> Kind:
    return next(s.relation.kind for s in nodes.walk(aggregate) if isinstance(s, nodes.Source))


def _seen(aggregate: nodes.Aggregate) -> set[str]:
    """Returns the columns that reach the aggregate: of its groups, its arguments and the filters before it."""
    read = [g.expression for g in aggregate.groups] + [a for c in aggregate.calls for a in c.arguments]
    read += [f.condition for f in nodes.walk(aggregate) if isinstance(f, nodes.Filter)]
    return {name for expression in read for name in e.column_names(expression)} - set(e.PSEUDO)
