"""What a query's state is made of: the steps that keep something, each with what decides what it keeps.

Two plans of the same shape can go on from each other's state; what lies between the steps (filters, columns that are
only passed on to the sink) may change.
"""

from __future__ import annotations

from headrace.plan.chain.build import build
from headrace.plan.chain.contract import Context, Store
from headrace.plan.explain import described, relation_text
from headrace.plan.nodes import Query
from headrace.plan.rules import optimized


def state_shape(query: Query) -> dict[str, str]:
    """By the name of the step: the step, and what flows into it."""
    keeping: set[str] = set()

    def store(name: str) -> Store:
        keeping.add(name.partition("/")[0])
        return {}

    built = build(optimized(query).sink, Context(store))
    return {
        step.name: " <- ".join([described(step.node), *(relation_text(vars(b.node)["relation"]) for b in step.inputs)])
        for step in built.walk()
        if step.name in keeping
    }
