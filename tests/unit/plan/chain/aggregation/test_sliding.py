"""Sliding windows: each row ends one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.relations import Window, WindowKind
from tests.unit.plan.chain.group_by import event, finished, grouped, ms, on_port
from tests.unit.plan.chain.join_inputs import Bench, cuts, is_chained, table_of


def sliding(size: int, grace: int = 100, idle: int | None = None) -> Window:
    return Window(WindowKind.SLIDING, ms(size), grace=ms(grace), idle=None if idle is None else ms(idle))


def test_each_row_ends_a_window_that_reaches_back_by_the_size() -> None:
    bench = Bench(grouped("SUM n", window=sliding(10)))
    assert bench.run(on_port([event(5, "a", 1), event(14, "a", 2), event(15, "a", 4)])) == [
        (5, ("a", (-4, 6)), (1,), None),
        (14, ("a", (5, 15)), (3,), None),
        (15, ("a", (6, 16)), (6,), None),
    ]


def test_rows_of_one_time_share_a_window_and_groups_share_none() -> None:
    bench = Bench(grouped("COUNT", window=sliding(10)))
    assert bench.run(on_port([event(5, "a"), event(5, "b"), event(5, "a")])) == [
        (5, ("a", (-4, 6)), (1,), None),
        (5, ("b", (-4, 6)), (1,), None),
        (5, ("a", (-4, 6)), (2,), None),
    ]


def test_an_out_of_order_row_counts_in_the_windows_of_later_rows() -> None:
    bench = Bench(grouped("COUNT", window=sliding(10)))
    bench.run(on_port([event(12, "a"), event(14, "a"), event(30, "a")]))
    assert bench.run(on_port([event(4, "a")])) == [(4, ("a", (-5, 5)), (1,), None), (12, ("a", (3, 13)), (2,), None)]


def test_the_latest_value_is_the_last_to_arrive() -> None:
    bench = Bench(grouped("LATEST_BY_OFFSET n", window=sliding(10)))
    assert bench.run(on_port([event(12, "a", 1), event(4, "a", 2)]))[-1] == (12, ("a", (3, 13)), (2,), None)


def test_a_row_whose_own_window_has_closed_is_reported_but_counts_in_open_ones() -> None:
    bench = Bench(grouped("COUNT", window=sliding(10, grace=5)))
    bench.run(on_port([event(18, "a"), event(20, "a")]))
    assert bench.run(on_port([event(14, "a")])) == [(18, ("a", (9, 19)), (2,), None), (20, ("a", (11, 21)), (3,), None)]
    assert bench.run(on_port([event(5, "a")])) == []
    assert bench.codes == ["late-record", "late-record"]


def test_rows_beyond_all_open_windows_are_removed_from_the_state() -> None:
    bench = Bench(grouped("COUNT", window=sliding(10, grace=5)))
    bench.run(on_port([event(time, "a") for time in range(0, 1000, 5)] + [event(2000, "b")]))
    assert [len(kept) for _, kept in bench.stores["aggregate-0/rows"].values()] == [1]


def test_emit_final_emits_each_window_once() -> None:
    node = grouped("COUNT", window=sliding(10, grace=0))
    below, above = Bench(node), Bench(finished(node))
    changes = below.run(on_port([event(1, "a"), event(1, "a"), event(3, "a")]))
    assert above.run(on_port(changes)) == [(1, ("a", (-8, 2)), (2,), None)]
    assert above.step.tick(100) == [(3, ("a", (-6, 4)), (3,), None)]


events = st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab"), st.integers(0, 5)), max_size=25)


@given(events)
def test_results_agree_with_the_definition(rows: list[tuple[int, str, int]]) -> None:
    found = table_of(Bench(grouped("SUM n", window=sliding(10))).run(on_port(event(*row) for row in rows)))
    assert found == {
        (group, (time - 9, time + 1)): (sum(n for t, g, n in rows if g == group and time - 10 < t <= time),)
        for time, group, _ in rows
    }


@given(events, cuts, st.sampled_from([0, 5, 100]))
def test_any_batches_give_the_same_results(rows: list[Any], cuts: set[int], grace: int) -> None:
    node = grouped("SUM n", "EARLIEST_BY_OFFSET n", window=sliding(10, grace=grace))
    entries = on_port(event(*row) for row in rows)
    whole, cut = Bench(node, old=True), Bench(node, old=True)
    out = whole.run(entries)
    assert cut.run_cut(entries, {c for c in cuts if c <= len(entries)}) == out
    assert cut.codes == whole.codes
    assert is_chained(out)
