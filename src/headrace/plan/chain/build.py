"""From a plan to steps: each kind of node has one builder, which registers itself with `step_of`.

    @step_of(Aggregate, old_from=ALWAYS)
    def aggregate(node, context, old, inputs): ...

`old` tells the builder that somebody downstream needs the `old` values of a table's changes. `old_from` tells which of
its inputs the step itself needs them from; a stream has none, and is never asked. Every module in this package may
hold builders: it is enough that it is there. `context.store(name)` is the step's own: names need to be unique within
one step only.
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
from headrace.plan.chain.contract import Builder, Context, Step, Store
from headrace.plan.nodes import Kind, Node, Relation

OldFrom = Callable[[Any, bool], bool | Sequence[bool]]
"""The node and whether `old` is asked of it -> whether its inputs must deliver `old`: all alike, or one by one."""

BuilderType = TypeVar("BuilderType", bound=Builder)


def _same(wanted: bool) -> OldFrom:
    return lambda node, old: wanted


def _as_asked(node: Node, old: bool) -> bool:
    del node
    return old


NEVER: OldFrom = _same(False)
"""The step does not look at `old`, and could not pass it on."""
ALWAYS: OldFrom = _same(True)
"""The step cannot work without: it takes back what it said about a row before."""
AS_ASKED: OldFrom = _as_asked
"""The step can compute its own `old` from its input's, and needs it only for that."""


@dataclass(frozen=True)
class Built:
    """A node at work, with what feeds it. `name` is its kind and its number among those, last first: it names its
    stores, and stays when other kinds of nodes come and go.
    """

    name: str
    node: Node
    step: Step
    inputs: tuple[Built, ...] = ()

    def walk(self) -> Iterator[Built]:
        """This and all below it, left before right."""
        yield self
        for below in self.inputs:
            yield from below.walk()


_BUILDERS: dict[type[Node], tuple[Builder, OldFrom]] = {}


def step_of(kind: type[Node], *, old_from: OldFrom = AS_ASKED) -> Callable[[BuilderType], BuilderType]:
    """Register the builder `(node, context, old, inputs) -> Step` of a kind of node."""

    def register(builder: BuilderType) -> BuilderType:
        _BUILDERS[kind] = (builder, old_from)
        return builder

    return register


def build(node: Node, context: Context, *, old: bool = False) -> Built:
    """The steps of a plan, sources first; `old` if the caller wants it in the changes that come out."""
    _load()
    return _build(node, context, old, Counter())


def _build(node: Node, context: Context, old: bool, seen: Counter[str]) -> Built:
    kind = type(node).__name__.lower()
    name = f"{kind}-{seen[kind]}"
    seen[kind] += 1
    builder, old_from = _BUILDERS[type(node)]
    old = old and _is_table(node)
    wanted = old_from(node, old)
    each = [wanted] * len(node.inputs) if isinstance(wanted, bool) else wanted
    inputs = tuple(_build(below, context, want, seen) for below, want in zip(node.inputs, each, strict=True))
    own = replace(context, store=_stores_of(context, name))
    return Built(name, node, builder(node, own, old, [i.step for i in inputs]), inputs)


def _is_table(node: Node) -> bool:
    relation: Relation = vars(node)["relation"]
    return relation.kind is Kind.TABLE


def _stores_of(context: Context, prefix: str) -> Callable[[str], Store]:
    return lambda name: context.store(f"{prefix}/{name}")


@cache
def _load() -> None:
    for module in pkgutil.iter_modules(chain.__path__):
        importlib.import_module(f"{chain.__name__}.{module.name}")
