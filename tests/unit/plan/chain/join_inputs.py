"""Two inputs of a join as lists of (port, entry) in arrival order, and how they go through a step."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from hypothesis import strategies as st

from headrace.plan.chain.step_builder import build_steps
from headrace.plan.nodes import Node, Source
from headrace.plan.relations import Format, Kind, Relation
from headrace.plan.steps import Context, Problem
from headrace.plan.types import BIGINT, STRING
from headrace.schema import Field


def source(name: str, kind: Kind, *columns: str, key_format: str = "KAFKA") -> Source:
    """Columns whose name begins with `n` are numbers, others text; the key is one number."""
    value = tuple(Field(c, BIGINT if c.startswith("n") else STRING) for c in columns)
    relation = Relation(kind, (Field(f"{name}_id", BIGINT),), value)
    return Source(name, name, relation, Format(key_format), Format("JSON"))


def joined(kind: Kind, left: Node, right: Node) -> Relation:
    return Relation(kind, left.relation.key, left.relation.value + right.relation.value)


class Bench:
    """A node at work over stores that outlive its step."""

    def __init__(self, node: Node, old: bool = False) -> None:
        self.stores: dict[str, dict[Any, Any]] = {}
        self.problems: list[Problem] = []
        self._node = node
        self._old = old
        self.renew()

    def renew(self) -> None:
        """The step made anew, as after a restart."""
        context = Context(lambda name: self.stores.setdefault(name, {}), self.problems.append)
        self.step: Any = build_steps(self._node, context, old=self._old).step

    def run(self, entries: Iterable[tuple[int, Any]]) -> list[Any]:
        """Entries next to each other of the same port come as one batch."""
        out: list[Any] = []
        for port, group in groupby(entries, key=itemgetter(0)):
            out += self.step.process(port, [entry for _, entry in group])
        return out

    def run_cut(self, entries: list[tuple[int, Any]], cuts: Iterable[int]) -> list[Any]:
        """The same, cut at these places, with a new step after each."""
        out: list[Any] = []
        edges = [0, *sorted(cuts), len(entries)]
        for start, end in pairwise(edges):
            self.renew()
            out += self.run(entries[start:end])
        return out

    @property
    def codes(self) -> list[str]:
        return [problem.code for problem in self.problems]

    @property
    def size(self) -> int:
        """How many values lie in the stores, those inside lists counted one by one."""
        return sum(
            len(value) if isinstance(value, list) else 1 for store in self.stores.values() for value in store.values()
        )


def table_of(changes: Iterable[tuple[int, Any, Any, Any]]) -> dict[Any, Any]:
    """What a changelog comes to."""
    table: dict[Any, Any] = {}
    for _, key, new, _ in changes:
        table.pop(key, None)
        if new is not None:
            table[key] = new
    return table


def is_chained(changes: Iterable[tuple[int, Any, Any, Any]]) -> bool:
    """Whether every `old` is the `new` before it of that key."""
    last: dict[Any, Any] = {}
    for _, key, new, old in changes:
        if last.get(key) != old:
            return False
        last[key] = new
    return True


cuts = st.sets(st.integers(0, 30), max_size=4)
keys = st.integers(0, 3).map(lambda number: (number,))
times = st.integers(0, 40)
