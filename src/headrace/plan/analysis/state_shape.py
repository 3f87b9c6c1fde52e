"""The shape of a query's state: its stateful steps, each with everything that determines what it stores.

Two plans of the same shape can resume from each other's state; what lies between the steps (filters, columns that are
only passed on to the sink) may change. User functions and operators carry a version beside their name, which changes
with their code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headrace.plan.chain.step_builder import BuiltStep, build_steps
from headrace.plan.explain import describe_state, relation_text
from headrace.plan.expressions import Call, Expression, NamedExpression
from headrace.plan.expressions import walk as parts_of
from headrace.plan.nodes import AggregateCall, Node, Query, walk
from headrace.plan.operators import OperatorDefinition
from headrace.plan.rewrite import relation_of
from headrace.plan.rules import optimize
from headrace.plan.steps import Context, Store


def state_shape(query: Query) -> dict[str, str]:
    """Returns, by step name, the step and its input."""
    return {
        step.name: " <- ".join([describe_state(step.node), *(relation_text(relation_of(b.node)) for b in step.inputs)])
        for step in _stateful_steps(query)
    }


def user_code_versions(query: Query) -> dict[str, str]:
    """Returns the versions of the user code in the query by its name: `operator VISITS`, `function MASKED`."""
    return _versions(walk(optimize(query).sink))


def stateful_code_versions(query: Query) -> dict[str, str]:
    """Returns the versions of the user code that determines what is stored."""
    return _versions(step.node for step in _stateful_steps(query))


def _stateful_steps(query: Query) -> list[BuiltStep]:
    names: set[str] = set()

    def store(name: str) -> Store:
        names.add(name.partition("/")[0])
        return {}

    built = build_steps(optimize(query).sink, Context(store))
    return [step for step in built.walk() if step.name in names]


def _versions(nodes: Iterable[Node]) -> dict[str, str]:
    return dict(version for node in nodes for value in vars(node).values() for version in _code_in(value))


def _code_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yields the user code in a part of a node; nodes below it are not visited."""
    if isinstance(value, OperatorDefinition):
        yield from () if value.is_ours else ((f"operator {value.name}", value.version),)
    elif isinstance(value, Expression):
        calls = (part for part in parts_of(value) if isinstance(part, Call))
        yield from ((f"function {call.name}", call.overload.version) for call in calls if call.overload.version)
    elif isinstance(value, tuple):
        for part in value:
            yield from _code_in(part)
    elif isinstance(value, NamedExpression | AggregateCall):
        yield from _code_in(tuple(vars(value).values()))
