from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.chain.interpreter import Chain
from headrace.plan.nodes import Query
from headrace.plan.relations import Window
from tests.unit.plan.chain.group_by import event, finished, grouped, hopping, on_port, session, tumbling
from tests.unit.plan.chain.join_inputs import Bench, cuts, table_of


class Finals:
    """An aggregate and what stands on it."""

    def __init__(self, window: Window) -> None:
        self.below = Bench(grouped("COUNT", window=window))
        self.above = Bench(finished(grouped("COUNT", window=window)))

    def feed(self, *rows: Any) -> list[Any]:
        return self.above.step.process(0, self.below.step.process(0, [event(*row) for row in rows]))

    def tick(self, now: int) -> list[Any]:
        closed = self.above.step.process(0, self.below.step.tick(now))
        return closed + self.above.step.tick(now)


def test_a_window_is_emitted_once_when_it_closes() -> None:
    finals = Finals(tumbling(2, grace=0))
    assert finals.feed((0, "a"), (1, "a")) == []
    assert finals.feed((2, "a")) == [(1, ("a", (0, 2)), (2,), None)]
    assert finals.feed((3, "a")) == []


def test_rows_within_the_grace_period_count() -> None:
    finals = Finals(tumbling(2, grace=1))
    assert finals.feed((0, "a"), (2, "a"), (1, "a"), (0, "a")) == []
    assert finals.feed((3, "a")) == [(1, ("a", (0, 2)), (3,), None)]


def test_windows_are_emitted_by_time_and_then_by_key() -> None:
    finals = Finals(hopping(4, 2, grace=0))
    out = finals.feed((1, "b"), (1, "a"), (2, "b"), (50, "c"))
    assert [key for _, key, _, _ in out] == [("a", (0, 4)), ("b", (0, 4)), ("b", (2, 6))]


def test_merged_sessions_are_emitted_once() -> None:
    finals = Finals(session(10, grace=20))
    assert finals.feed((0, "a"), (15, "a"), (7, "a"), (8, "a"), (45, "b")) == []
    assert finals.feed((46, "b")) == [(15, ("a", (0, 15)), (4,), None)]


def test_a_tick_closes_windows_on_idle_input() -> None:
    finals = Finals(tumbling(10, grace=5))
    finals.feed((3, "a"), (12, "b"))
    assert finals.above.step.deadline() == 15
    assert finals.tick(14) == []
    assert finals.tick(15) == [(3, ("a", (0, 10)), (1,), None)]
    assert finals.above.step.deadline() == 25
    assert finals.tick(1000) == [(12, ("b", (10, 20)), (1,), None)]
    assert finals.above.step.deadline() is None


def test_a_row_after_the_tick_that_closed_its_window_is_late() -> None:
    finals = Finals(tumbling(10, grace=0))
    finals.feed((3, "a"))
    finals.tick(20)
    assert finals.feed((4, "a")) == []
    assert finals.below.codes == ["late-record"]


def test_a_result_that_arrives_after_its_window_closed_is_late() -> None:
    bench = Bench(finished(grouped("COUNT", window=tumbling(10, grace=0))))
    bench.step.tick(20)
    assert bench.step.process(0, [(4, ("a", (0, 10)), (1,), None)]) == []
    assert bench.codes == ["late-record"]


def test_a_tick_passes_through_the_whole_chain() -> None:
    chain = Chain(Query("q", cast(Any, finished(grouped("COUNT", window=tumbling(10, grace=0))))))
    chain.feed("s", [event(3, "a")])
    assert chain.deadline() == 10
    assert chain.tick(10) == [(3, ("a", (0, 10)), (1,), None)]
    assert chain.feed("s", [event(4, "a"), event(30, "b")]) == []


def test_windows_older_than_the_retention_are_dropped_and_reported() -> None:
    finals = Finals(tumbling(2, grace=1, retention=3))
    out = finals.feed((0, "a"), (1, "a"), (2, "a"), (1, "a"), (0, "a"), (5, "a"))
    assert out == [(2, ("a", (2, 4)), (1,), None)]
    assert finals.above.codes == ["window-expired"]


def test_a_retention_applies_to_hopping_windows() -> None:
    finals = Finals(hopping(5, 2, grace=1, retention=6))
    out = finals.feed(*((time, "a") for time in (0, 1, 2, 1, 6, 5, 10)))
    assert out == [(2, ("a", (0, 5)), (4,), None), (6, ("a", (4, 9)), (2,), None)]


rows = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["a", "b"])), max_size=30)
windows = st.sampled_from([tumbling(10, 5), tumbling(7, 0), hopping(10, 5, 3), session(5, 0), session(5, 7)])


@given(rows, windows)
def test_the_last_change_of_each_window_is_emitted(rows: list[Any], window: Window) -> None:
    changes = Bench(grouped("COUNT", window=window)).run(on_port(event(*row) for row in rows))
    finals = Finals(window)
    out = finals.feed(*rows) + finals.tick(1 << 40)
    assert {key: new for _, key, new, _ in out} == table_of(changes)
    assert len(out) == len(table_of(changes))


@given(rows, windows, cuts)
def test_any_batches_give_the_same_results(rows: list[Any], window: Window, cuts: set[int]) -> None:
    changes = on_port(Bench(grouped("COUNT", window=window)).run(on_port(event(*row) for row in rows)))
    node = finished(grouped("COUNT", window=window))
    assert Bench(node).run_cut(changes, {c for c in cuts if c <= len(changes)}) == Bench(node).run(changes)
