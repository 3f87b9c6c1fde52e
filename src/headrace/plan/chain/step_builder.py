"""Builds the steps of a plan: each kind of node has one builder, registered with `step_of`.

    @step_of(Aggregate, old_from=ALWAYS)
    def aggregate(node, context, old, inputs): ...

`old` tells the builder that a downstream step needs the `old` values of a table's changes. `old_from` says from which
of its inputs the step itself needs them; a stream has none, and is never asked for them. Every module in this package
may contain builders: no registration elsewhere is needed. `context.store(name)` is private to the step: names need to
be unique within one step only.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from headrace.plan import chain
from headrace.plan.nodes import Node
from headrace.plan.relations import Kind
from headrace.plan.rewrite import relation_of
from headrace.plan.steps import Builder, Context, Step, Store

OldFrom = Callable[[Any, bool], bool | Sequence[bool]]
"""(node, whether `old` is requested of it) -> whether its inputs must provide `old`: one answer for all, or one each.
"""

BuilderType = TypeVar("BuilderType", bound=Builder)


def _same(needed: bool) -> OldFrom:
    return lambda node, old: needed


def _as_requested(node: Node, old: bool) -> bool:
    del node
    return old


NEVER: OldFrom = _same(False)
"""The step does not use `old`, and could not pass it on."""
ALWAYS: OldFrom = _same(True)
"""The step requires `old`: it retracts what it emitted for a row before."""
AS_REQUESTED: OldFrom = _as_requested
"""The step computes its own `old` from its input's, and needs it only for that."""


@dataclass(frozen=True)
class BuiltStep:
    """A node's step with its inputs. `name` is its kind and its number among those, last first: it names the step's
    stores, and stays the same when nodes of other kinds are added or removed.
    """

    name: str
    node: Node
    step: Step
    inputs: tuple[BuiltStep, ...] = ()

    def walk(self) -> Iterator[BuiltStep]:
        """Yields this step and all below it, left before right."""
        yield self
        for below in self.inputs:
            yield from below.walk()


_BUILDERS: dict[type[Node], tuple[Builder, OldFrom]] = {}


def step_of(kind: type[Node], *, old_from: OldFrom = AS_REQUESTED) -> Callable[[BuilderType], BuilderType]:
    """Registers the builder `(node, context, old, inputs) -> Step` of a kind of node."""

    def register(builder: BuilderType) -> BuilderType:
        _BUILDERS[kind] = (builder, old_from)
        return builder

    return register


def build_steps(node: Node, context: Context, *, old: bool = False) -> BuiltStep:
    """Builds the steps of a plan, sources first; `old` requests it in the output changes."""
    _load()
    return _build(node, context, old, Counter())


def _build(node: Node, context: Context, old: bool, seen: Counter[str]) -> BuiltStep:
    kind = node.state_name
    name = f"{kind}-{seen[kind]}"
    seen[kind] += 1
    builder, old_from = _BUILDERS[type(node)]
    old = old and relation_of(node).kind is Kind.TABLE
    needed = old_from(node, old)
    each = [needed] * len(node.inputs) if isinstance(needed, bool) else needed
    inputs = tuple(_build(below, context, want, seen) for below, want in zip(node.inputs, each, strict=True))
    own = replace(context, store=_stores_of(context, name))
    return BuiltStep(name, node, builder(node, own, old, [i.step for i in inputs]), inputs)


def _stores_of(context: Context, prefix: str) -> Callable[[str], Store]:
    return lambda name: context.store(f"{prefix}/{name}")


@cache
def _load() -> None:
    for module in pkgutil.walk_packages(chain.__path__, f"{chain.__name__}."):
        importlib.import_module(module.name)
