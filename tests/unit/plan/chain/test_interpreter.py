"""A query from its sources to its sink: order of arrival, any batches, and time without records."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.plan import expressions as ex
from headrace.plan import types as ty
from headrace.plan.chain.interpreter import Chain
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.expressions import NamedExpression
from headrace.plan.nodes import Explode, Filter, Node, Query, Rekey, Select, Union
from headrace.plan.relations import Kind, Relation
from headrace.plan.steps import Batch, Context, Problem, Step
from headrace.plan.traits import Traits
from headrace.schema import Field
from tests.unit.plan.chain.expression_builders import call, compare, lit, math, relation, sink, source

STREAM = relation(A=ty.INT)
TABLE = relation(Kind.TABLE, A=ty.INT)
A = ex.Column(ty.INT, "A")
OTHER = (Field("B", ty.INT),)


def chain(node: Any, **options: Any) -> Chain:
    return Chain(Query("q", sink(node)), **options)


def linear() -> Node:
    """Every stateless step one after another; some rows fail on the way."""
    kept = Filter(source(STREAM), STREAM, compare(A, ">", lit(-2)))
    selected = Select(kept, STREAM, (NamedExpression("A", math("/", lit(12), A)),))
    keyed = Rekey(
        selected, Relation(Kind.STREAM, OTHER, STREAM.value), (NamedExpression("B", math("%", A, lit(3))),), True
    )
    lists = call(lambda n: [n] * (n % 3), ty.INT, A)
    over = Relation(Kind.STREAM, OTHER, (*STREAM.value, Field("C", ty.INT)))
    return Explode(keyed, over, (NamedExpression("C", lists),))


def table() -> Node:
    kept = Filter(source(TABLE), TABLE, compare(A, ">", lit(0)))
    return Select(kept, TABLE, (NamedExpression("A", math("*", A, A)),))


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 50),
        st.none() | st.tuples(st.sampled_from("abc")),
        st.none() | st.tuples(st.none() | st.integers(-3, 6)),
    ),
    max_size=20,
)


@pytest.mark.parametrize(
    ("make", "old"), [(linear, False), (table, False), (table, True)], ids=["stream", "table", "old"]
)
@settings(max_examples=60, deadline=None)
@given(events=EVENTS, cuts=st.lists(st.integers(0, 20), max_size=4))
def test_any_batches_give_the_same_results(make: Any, old: bool, events: list[Any], cuts: list[int]) -> None:
    seen: list[list[Problem]] = [[], []]
    whole = chain(make(), context=Context(report=seen[0].append), old=old).feed("in", events)
    pieces = chain(make(), context=Context(report=seen[1].append), old=old)
    bounds = [0, *sorted(cuts), len(events)]
    cut = [entry for a, b in itertools.pairwise(bounds) for entry in pieces.feed("in", events[a:b])]
    assert cut == whole
    assert sorted(seen[0], key=repr) == sorted(seen[1], key=repr)


@dataclass(frozen=True)
class Meet(Node, traits=Traits(stateful=True, timed=False, realtime=False)):
    """A join for tests: tells which side each row came from, and how many the other side had then."""

    left: Node
    right: Node
    relation: Relation


class MeetStep:
    def __init__(self, context: Context) -> None:
        self._seen = context.store("seen")

    def process(self, port: int, batch: Batch) -> Batch:
        out = []
        for time, key, _ in batch:
            self._seen[port] = self._seen.get(port, 0) + 1
            out.append((time, key, (port, self._seen.get(1 - port, 0))))
        return out

    def tick(self, now: int) -> Batch:
        return [(now, None, (sum(self._seen.values()), 0))]

    def deadline(self) -> int | None:
        return 100 if self._seen else None


@step_of(Meet, old_from=NEVER)
def meet(node: Meet, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del node, old, inputs
    return MeetStep(context)


MET = relation(PORT=ty.INT, OTHERS=ty.INT)


def test_joins_process_records_in_order_of_arrival() -> None:
    node = Meet(source(STREAM, "l"), source(STREAM, "r"), MET)
    event = (1, None, (1,))
    out = chain(node).run([("l", event), ("l", event), ("r", event), ("l", event), ("other", event)])
    assert [entry[2] for entry in out] == [(0, 0), (0, 0), (1, 2), (0, 1)]


def test_a_self_join_processes_each_record_on_the_left_first() -> None:
    node = Meet(source(STREAM), source(STREAM), MET)
    out = chain(node).feed("in", [(1, None, (1,)), (2, None, (2,))])
    assert [(entry[0], *entry[2]) for entry in out] == [(1, 0, 0), (1, 1, 1), (2, 0, 1), (2, 1, 2)]


def test_results_of_a_tick_pass_through_the_later_steps() -> None:
    port = ex.Column(ty.INT, "PORT")
    met = Meet(source(STREAM, "l"), source(STREAM, "r"), MET)
    above = Filter(Select(met, STREAM, (NamedExpression("A", port),)), STREAM, compare(A, ">", lit(1)))
    made = chain(above)
    assert made.deadline() is None
    made.run([("l", (1, None, (1,)))])
    assert made.deadline() == 100
    assert made.tick(100) == []
    made.run([("r", (1, None, (1,)))])
    assert made.tick(101) == [(101, None, (2,))]


def test_topics_are_listed_in_the_order_of_the_plan() -> None:
    node = Union(source(STREAM, "b"), Union(source(STREAM, "a"), source(STREAM, "b"), STREAM), STREAM)
    assert chain(node).topics == ("b", "a")
