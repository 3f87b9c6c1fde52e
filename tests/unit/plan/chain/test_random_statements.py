"""Random statements over random records: any batches, with saved and restored state, give the same result."""

from __future__ import annotations

import copy
import os
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.steps import Context, Problem
from tests.ksql_strategies import Example, examples

EXAMPLES = 2000 if os.environ.get("HEADRACE_HYPOTHESIS") == "heavy" else 30


class Stores(dict[str, dict[Any, Any]]):
    def __missing__(self, name: str) -> dict[Any, Any]:
        self[name] = {}
        return self[name]


def run_whole(example: Example) -> tuple[list[RawRecord], list[Problem]]:
    return run_cut(example, [])


def run_cut(example: Example, cuts: list[int]) -> tuple[list[RawRecord], list[Problem]]:
    """At every cut the chain is rebuilt over a copy of the stores, as after a restart.

    Problems are sorted: a step tells of all its records of a batch before the next step tells of its own.
    """
    problems: list[Problem] = []
    out: list[RawRecord] = []
    stores = Stores()
    edges = [0, *sorted(cut for cut in cuts if cut < len(example.records)), len(example.records)]
    for start, end in pairwise(edges):
        stores = copy.deepcopy(stores)
        out += Pipeline(example.query, Context(stores.__getitem__, problems.append)).run(example.records[start:end])
    return out, sorted(problems, key=repr)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(examples(), st.lists(st.integers(0, 25), max_size=6))
def test_any_batches_give_the_same_results(example: Example, cuts: list[int]) -> None:
    assert run_cut(example, cuts) == run_whole(example), example.text


@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=list(HealthCheck))
@given(examples())
def test_single_records_give_the_results_of_batches(example: Example) -> None:
    assert run_cut(example, list(range(len(example.records)))) == run_whole(example), example.text
