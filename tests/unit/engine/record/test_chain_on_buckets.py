"""The chain over stores in buckets: random statements, saved and reopened at every cut, beside plain dicts.

Steps change values in place. They must set them again, since a bucket in which nothing was set is not written; so the
second test hands out copies only, on which a change that is not set again is lost at once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, MutableMapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine.record import buckets
from headrace.engine.record.buckets import PageState
from headrace.plan.chain.contract import Context, Problem
from headrace.plan.chain.pipe import Pipe
from headrace.plan.chain.records import Raw
from tests.statements import Example, examples
from tests.unit.engine.record.shelves import MemoryShelf

quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
Outcome = tuple[list[Raw], list[Problem]]


def in_dicts(example: Example) -> Outcome:
    stores: dict[str, dict[Any, Any]] = {}
    problems: list[Problem] = []
    context = Context(lambda name: stores.setdefault(name, {}), problems.append)
    return Pipe(example.query, context).run(example.records), problems


def in_buckets(example: Example, cuts: list[int]) -> Outcome:
    shelf = MemoryShelf()
    out: list[Raw] = []
    problems: list[Problem] = []
    edges = [0, *sorted(cut for cut in cuts if cut < len(example.records)), len(example.records)]
    for start, end in pairwise(edges):
        state = PageState(shelf, page=0)
        out += Pipe(example.query, Context(state.store, problems.append)).run(example.records[start:end])
        state.save()
    return out, problems


class Copies(MutableMapping[Any, Any]):
    """Gives and takes copies."""

    def __init__(self) -> None:
        self._entries: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return copy.deepcopy(self._entries[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._entries[key] = copy.deepcopy(value)

    def __delitem__(self, key: Any) -> None:
        del self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)


def in_copies(example: Example) -> Outcome:
    """Record by record, as nothing but the stores may carry over from one batch to the next."""
    stores: dict[str, Copies] = {}
    out: list[Raw] = []
    problems: list[Problem] = []
    for record in example.records:
        context = Context(lambda name: stores.setdefault(name, Copies()), problems.append)
        out += Pipe(example.query, context).run([record])
    return out, problems


@pytest.fixture(scope="module", autouse=True)
def _tiny_buckets() -> Iterator[None]:
    sizes = buckets.ROOM, buckets.INLINE
    buckets.ROOM, buckets.INLINE = 100, 60
    yield
    buckets.ROOM, buckets.INLINE = sizes


@quick
@given(examples(), st.lists(st.integers(0, 25), max_size=6))
def test_buckets_change_nothing(example: Example, cuts: list[int]) -> None:
    assert in_buckets(example, cuts) == in_dicts(example), example.text


@quick
@given(examples())
def test_steps_set_again_what_they_changed_in_place(example: Example) -> None:
    assert in_copies(example) == in_dicts(example), example.text
