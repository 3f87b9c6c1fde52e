"""What a query's state is made of: the steps that keep something, each with what decides what it keeps.

Two plans of the same shape can go on from each other's state; what lies between the steps (filters, columns that are
only passed on to the sink) may change. Functions and operators of the user's own have a version beside their name, by
which it is seen that their code has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headrace.plan.chain.build import Built, build
from headrace.plan.chain.contract import Context, Store
from headrace.plan.explain import described, relation_text
from headrace.plan.expressions import Call, Expression, Named
from headrace.plan.expressions import walk as parts_of
from headrace.plan.nodes import AggregateCall, Node, Query, walk
from headrace.plan.operators import OperatorKind
from headrace.plan.rules import optimized


def state_shape(query: Query) -> dict[str, str]:
    """By the name of the step: the step, and what flows into it."""
    return {
        step.name: " <- ".join([described(step.node), *(relation_text(vars(b.node)["relation"]) for b in step.inputs)])
        for step in _keeping(query)
    }


def own_code(query: Query) -> dict[str, str]:
    """The versions of the user's own code in the query, by its name: `operator VISITS`, `function MASKED`."""
    return _versions(walk(optimized(query).sink))


def state_code(query: Query) -> dict[str, str]:
    """Those of them that decide what is kept."""
    return _versions(step.node for step in _keeping(query))


def _keeping(query: Query) -> list[Built]:
    names: set[str] = set()

    def store(name: str) -> Store:
        names.add(name.partition("/")[0])
        return {}

    built = build(optimized(query).sink, Context(store))
    return [step for step in built.walk() if step.name in names]


def _versions(nodes: Iterable[Node]) -> dict[str, str]:
    return dict(found for node in nodes for value in vars(node).values() for found in _code_in(value))


def _code_in(value: Any) -> Iterator[tuple[str, str]]:
    """In a part of a node; the nodes below it tell for themselves."""
    if isinstance(value, OperatorKind):
        yield from () if value.is_ours else ((f"operator {value.name}", value.version),)
    elif isinstance(value, Expression):
        calls = (part for part in parts_of(value) if isinstance(part, Call))
        yield from ((f"function {call.name}", call.overload.version) for call in calls if call.overload.version)
    elif isinstance(value, tuple):
        for part in value:
            yield from _code_in(part)
    elif isinstance(value, Named | AggregateCall):
        yield from _code_in(tuple(vars(value).values()))
