"""When changes of a table are emitted, with time advanced by ticks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.chain.interpreter import Chain
from headrace.plan.nodes import Emit, Query
from headrace.plan.relations import Kind, Window
from headrace.plan.steps import Context
from headrace.plan.triggers import After, Every, Pace, Panes, PerBatch, PerRecord, Results, Trigger
from tests.unit.plan.chain.group_by import event, grouped, hopping, ms, session, source, tumbling
from tests.unit.plan.chain.join_inputs import Bench, cuts, is_chained, table_of

ACCUMULATING, DISCARDING, RETRACTING = Results
EARLY_AND_LATE = Panes(Every(ms(2)), PerRecord())


class World:
    """A chain over stores that outlive it."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.stores: dict[str, Any] = defaultdict(dict)
        self.problems: list[Any] = []
        self.renew()

    def renew(self) -> None:
        context = Context(self.stores.__getitem__, self.problems.append)
        self.chain = Chain(Query("q", cast(Any, self.node)), context, old=True)

    def feed(self, *rows: Any) -> list[Any]:
        return self.chain.feed("s", [event(*row) for row in rows])

    def play(self, inputs: Iterable[Any]) -> list[Any]:
        """Rows, and numbers, which are ticks; rows next to each other are one batch."""
        out: list[Any] = []
        for is_tick, group in groupby(inputs, key=lambda one: isinstance(one, int)):
            some = list(group)
            out += [o for now in some for o in self.chain.tick(now)] if is_tick else self.feed(*some)
        return out


def emitted(
    trigger: Trigger, results: Results = ACCUMULATING, *, window: Window | None = None, aggregate: str = "COUNT"
) -> World:
    node = grouped(aggregate, window=window)
    return World(Emit(node, node.relation, trigger, results))


# -- paces ----------------------------------------------------------------------------------------------------------


def test_per_record_emits_every_change() -> None:
    assert emitted(PerRecord()).feed((1, "a"), (2, "a")) == [(1, ("a",), (1,), None), (2, ("a",), (2,), (1,))]


def test_per_batch_emits_each_changed_key_once() -> None:
    world = emitted(PerBatch())
    assert world.feed((1, "b"), (2, "a"), (9, "b")) == [(9, ("b",), (2,), None), (2, ("a",), (1,), None)]
    assert world.feed((10, "a")) == [(10, ("a",), (2,), (1,))]
    assert world.chain.deadline() is None
    assert world.feed() == world.chain.tick(1000) == []


def test_a_batch_of_several_topics_is_one_batch() -> None:
    world = emitted(PerBatch())
    inputs = [("s", event(1, "a")), ("other", event(2, "a")), ("s", event(3, "a"))]
    assert world.chain.run(inputs) == [(3, ("a",), (2,), None)]


def test_every_emits_all_changed_keys_at_full_periods() -> None:
    world = emitted(Every(ms(10)))
    assert world.feed((3, "a"), (8, "b"), (9, "a")) == []
    assert world.chain.deadline() == 10
    assert world.feed((10, "c")) == [(9, ("a",), (2,), None), (8, ("b",), (1,), None)]
    assert world.chain.tick(19) == []
    assert world.chain.tick(20) == [(10, ("c",), (1,), None)]
    assert world.chain.deadline() is None


def test_after_emits_each_key_separately() -> None:
    world = emitted(After(ms(10)))
    assert world.feed((3, "a"), (8, "b"), (12, "a")) == []
    assert world.chain.deadline() == 13
    assert world.chain.tick(13) == [(12, ("a",), (2,), None)]
    assert world.feed((17, "a")) == []
    assert world.chain.tick(100) == [(8, ("b",), (1,), None), (17, ("a",), (3,), (2,))]


def test_a_key_created_and_deleted_between_emissions_is_not_emitted() -> None:
    table = source(Kind.TABLE)
    bench = Bench(Emit(table, table.relation, Every(ms(10))))
    bench.step.process(0, [(1, (1,), ("x", 1), None), (2, (1,), None, ("x", 1)), (3, (2,), ("y", 2), None)])
    assert bench.step.tick(10) == [(3, (2,), ("y", 2), None)]
    bench.step.process(0, [(11, (2,), None, ("y", 2))])
    assert bench.step.tick(20) == [(11, (2,), None, ("y", 2))]


# -- panes ----------------------------------------------------------------------------------------------------------


def test_the_on_time_pane_is_emitted_at_the_window_end() -> None:
    world = emitted(Panes(), window=tumbling(10, grace=0))
    assert world.feed((3, "a"), (9, "a")) == []
    assert world.chain.deadline() == 10
    assert world.feed((10, "a")) == [(9, ("a", (0, 10)), (2,), None)]
    assert world.feed((4, "a")) == []
    assert [p.code for p in world.problems] == ["late-record"]


def test_early_on_time_and_late_panes_are_emitted() -> None:
    world = emitted(Panes(Every(ms(4)), After(ms(3))), window=tumbling(10, grace=100))
    assert world.feed((1, "a"), (2, "a"), (5, "a")) == [(2, ("a", (0, 10)), (2,), None)]
    assert world.feed((9, "a")) == [(5, ("a", (0, 10)), (3,), (2,))]
    assert world.chain.tick(10) == [(9, ("a", (0, 10)), (4,), (3,))]
    assert world.feed((7, "a"), (8, "a")) == []
    assert world.chain.deadline() == 13
    assert world.chain.tick(13) == [(9, ("a", (0, 10)), (6,), (4,))]


def test_a_pane_without_changes_is_not_emitted() -> None:
    world = emitted(Panes(PerRecord(), PerRecord()), window=tumbling(10, grace=100))
    assert world.feed((1, "a")) == [(1, ("a", (0, 10)), (1,), None)]
    assert world.chain.tick(10) == []
    assert world.feed((2, "a")) == [(2, ("a", (0, 10)), (2,), (1,))]


def test_the_on_time_pane_of_a_session_is_emitted_after_its_gap() -> None:
    world = emitted(Panes(), window=session(10, grace=0))
    assert world.feed((1, "a"), (5, "a")) == []
    assert world.chain.tick(15) == []
    assert world.chain.tick(16) == [(5, ("a", (1, 5)), (2,), None)]


def test_an_idle_input_emits_its_panes() -> None:
    world = emitted(Panes(), window=replace(tumbling(1000, grace=0), idle=ms(50)))
    assert world.feed((3, "a"), (25, "a")) == []
    assert world.chain.deadline() == 75
    assert world.chain.tick(75) == [(25, ("a", (0, 1000)), (2,), None)]
    assert world.feed((30, "a"), (1001, "a")) == []
    assert [p.code for p in world.problems] == ["late-record"]


# -- results --------------------------------------------------------------------------------------------------------


def test_discarding_emits_the_changes_since_the_last_result() -> None:
    world = emitted(Every(ms(10)), DISCARDING, aggregate="SUM n")
    assert world.feed((1, "a", 1), (2, "a", 2), (11, "a", 4), (12, "b", 8), (21, "a", 16)) == [
        (2, ("a",), (3,), None),
        (11, ("a",), (4,), None),
        (12, ("b",), (8,), None),
    ]
    assert world.chain.tick(30) == [(21, ("a",), (16,), None)]


def test_discarding_panes_of_a_growing_session() -> None:
    world = emitted(Panes(Every(ms(4)), PerRecord()), DISCARDING, window=session(10, grace=0))
    out = world.play([(1, "a"), (2, "a"), 4, (5, "a"), (6, "a"), 1000])
    assert out == [(2, ("a", (1, 2)), (2,), None), (6, ("a", (1, 6)), (2,), None)]


def test_retracting_deletes_the_last_result_first() -> None:
    world = emitted(Every(ms(10)), RETRACTING)
    assert world.play([(1, "a"), 10, (11, "a"), (12, "a"), 20]) == [
        (1, ("a",), (1,), None),
        (12, ("a",), None, (1,)),
        (12, ("a",), (3,), None),
    ]


# -- properties -----------------------------------------------------------------------------------------------------

inputs = st.lists(st.one_of(st.tuples(st.integers(0, 40), st.sampled_from("ab")), st.integers(0, 40)), max_size=25)
windows = st.sampled_from([None, tumbling(10, 5), hopping(10, 5, 100), session(4, 10)])
paces = st.sampled_from([PerRecord(), Every(ms(7)), After(ms(3)), After(ms(0))])
END = 1 << 40


def of(pace: Pace, window: Window | None) -> Trigger:
    return Panes(None if isinstance(pace, PerRecord) else pace, pace) if window else pace


@given(inputs, cuts, windows, paces, st.sampled_from(Results))
def test_any_batches_give_the_same_results(
    inputs: list[Any], cuts: set[int], window: Window | None, pace: Any, results: Results
) -> None:
    whole, cut = (emitted(of(pace, window), results, window=window) for _ in range(2))
    out: list[Any] = []
    for start, end in pairwise([0, *sorted(c for c in cuts if c <= len(inputs)), len(inputs)]):
        cut.renew()
        out += cut.play(inputs[start:end])
    assert out == whole.play(inputs)
    assert [p.code for p in cut.problems] == [p.code for p in whole.problems]


@given(inputs, windows, paces, st.sampled_from([ACCUMULATING, RETRACTING]))
def test_all_changes_are_emitted_eventually(
    inputs: list[Any], window: Window | None, pace: Any, results: Results
) -> None:
    at_once, later = World(grouped("COUNT", window=window)), emitted(of(pace, window), results, window=window)
    out = later.play([*inputs, END])
    assert table_of(out) == table_of(at_once.play([*inputs, END]))
    assert is_chained(out)
    assert later.stores["emit-0/held"] == {}


@pytest.mark.parametrize("window", [None, tumbling(10, 100), session(4, 100)], ids=["none", "tumbling", "session"])
@given(inputs, paces)
def test_discarded_results_add_up_to_the_total(window: Window | None, inputs: list[Any], pace: Any) -> None:
    world = emitted(of(pace, window), DISCARDING, window=window)
    out = world.play([*inputs, END])
    used = sum(not isinstance(one, int) for one in inputs) - len(world.problems)
    assert sum(new[0] for _, _, new, _ in out) == used
