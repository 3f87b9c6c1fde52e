"""The chain over bucketed stores: random statements, saved and reopened at every cut, compared with plain dicts.

Steps change values in place. They must set them again, since a bucket in which nothing was set is not written; so the
second test hands out copies only, on which a change that is not set again is lost at once.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine.record import state
from headrace.engine.record.state import KeyGroupState
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.steps import Context, Problem, Store
from tests.ksql_strategies import Example, examples
from tests.unit.engine.record.memory_state_storage import MemoryStateStorage

quick = settings(deadline=None, suppress_health_check=list(HealthCheck))
Outcome = tuple[list[RawRecord], list[Problem]]


def run(
    example: Example, cuts: Iterable[int], open_: Callable[[], Callable[[str], Store]], save: Callable[[], None]
) -> Outcome:
    """Over stores that are opened at every cut. The same cuts for all: problems are reported step by step."""
    out: list[RawRecord] = []
    problems: list[Problem] = []
    edges = [0, *sorted(cut for cut in cuts if cut < len(example.records)), len(example.records)]
    for start, end in pairwise(edges):
        out += Pipeline(example.query, Context(open_(), problems.append)).run(example.records[start:end])
        save()
    return out, problems


def in_dicts(example: Example, cuts: Iterable[int]) -> Outcome:
    stores: defaultdict[str, Store] = defaultdict(dict)
    return run(example, cuts, lambda: stores.__getitem__, lambda: None)


def in_buckets(example: Example, cuts: Iterable[int]) -> Outcome:
    storage = MemoryStateStorage()
    opened: list[KeyGroupState] = []

    def open_() -> Callable[[str], Store]:
        opened.append(KeyGroupState(storage, key_group=0))
        return opened[-1].store

    def save() -> None:
        opened[-1].save()

    return run(example, cuts, open_, save)


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


def in_copies(example: Example, cuts: Iterable[int]) -> Outcome:
    stores: defaultdict[str, Store] = defaultdict(Copies)
    return run(example, cuts, lambda: stores.__getitem__, lambda: None)


@pytest.fixture(scope="module", autouse=True)
def _tiny_buckets() -> Iterator[None]:
    sizes = state.BUCKET_BYTES, state.INLINE_BYTES, state.MAX_CACHED_BYTES
    state.BUCKET_BYTES, state.INLINE_BYTES, state.MAX_CACHED_BYTES = 100, 60, 200
    yield
    state.BUCKET_BYTES, state.INLINE_BYTES, state.MAX_CACHED_BYTES = sizes


cuts = st.lists(st.integers(0, 25), max_size=6) | st.just(range(25))


@quick
@given(examples(), cuts)
def test_bucketed_state_gives_the_results_of_dicts(example: Example, cuts: Iterable[int]) -> None:
    assert in_buckets(example, cuts) == in_dicts(example, cuts), example.text


@quick
@given(examples(), cuts)
def test_steps_store_the_values_that_they_change_in_place(example: Example, cuts: Iterable[int]) -> None:
    assert in_copies(example, cuts) == in_dicts(example, cuts), example.text
