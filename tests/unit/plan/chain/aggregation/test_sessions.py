from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan.chain.group_by import event, grouped, on_port, session
from tests.unit.plan.chain.join_inputs import Bench, cuts, table_of


def test_a_growing_session_is_deleted_and_emitted_again() -> None:
    bench = Bench(grouped("MAX n", window=session(30_000)), old=True)
    rows = [event(0, "a", 0), event(70_010, "a", 1), event(10_009, "a", 5), event(10_010, "a", 6)]
    assert bench.step.process(0, rows) == [
        (0, ("a", (0, 0)), (0,), None),
        (70_010, ("a", (70_010, 70_010)), (1,), None),
        (0, ("a", (0, 0)), None, (0,)),
        (10_009, ("a", (0, 10_009)), (5,), None),
        (10_009, ("a", (0, 10_009)), None, (5,)),
        (10_010, ("a", (0, 10_010)), (6,), None),
    ]


def test_a_row_between_two_sessions_joins_them() -> None:
    bench = Bench(grouped("COUNT", window=session(1000)))
    assert bench.step.process(0, [event(0, "a"), event(1500, "a"), event(700, "a")]) == [
        (0, ("a", (0, 0)), (1,), None),
        (1500, ("a", (1500, 1500)), (1,), None),
        (0, ("a", (0, 0)), None, None),
        (1500, ("a", (1500, 1500)), None, None),
        (1500, ("a", (0, 1500)), (3,), None),
    ]


def test_merged_sessions_combine_values_by_arrival() -> None:
    bench = Bench(grouped("EARLIEST_BY_OFFSET n", "LATEST_BY_OFFSET n", window=session(10)))
    out = bench.step.process(0, [event(15, "a", 1), event(0, "a", 2), event(7, "a", 3)])
    assert out[-1] == (15, ("a", (0, 15)), (1, 3), None)


def test_a_row_inside_a_session_deletes_and_emits_it_again() -> None:
    bench = Bench(grouped("COUNT", window=session(10)))
    out = bench.step.process(0, [event(0, "a"), event(8, "a"), event(4, "a")])
    assert out[-2:] == [(8, ("a", (0, 8)), None, None), (8, ("a", (0, 8)), (3,), None)]


def test_a_session_with_unchanged_bounds_is_updated() -> None:
    bench = Bench(grouped("COUNT", window=session(10)), old=True)
    assert bench.step.process(0, [event(5, "a"), event(5, "a")]) == [
        (5, ("a", (5, 5)), (1,), None),
        (5, ("a", (5, 5)), (2,), (1,)),
    ]


def test_late_rows_are_reported_and_dropped() -> None:
    bench = Bench(grouped("COUNT", window=session(10, grace=5)))
    out = bench.step.process(0, [event(0, "a"), event(100, "b"), event(85, "a"), event(84, "a"), event(84, "c")])
    # 84 comes too late for a session of its own, but in time for the one that goes up to 85.
    assert [(key, new) for _, key, new, _ in out] == [
        (("a", (0, 0)), (1,)),
        (("b", (100, 100)), (1,)),
        (("a", (85, 85)), (1,)),
        (("a", (85, 85)), None),
        (("a", (84, 85)), (2,)),
    ]
    assert [(problem.code, problem.row) for problem in bench.problems] == [("late-record", ("c", 1))]


def test_closed_sessions_are_removed_from_the_state() -> None:
    bench = Bench(grouped("COUNT", window=session(5, grace=5)))
    for time in range(0, 1000, 20):
        bench.step.process(0, [event(time, f"g{time}"), event(time, "a"), event(time + 4, "a")])
    assert len(next(store for name, store in bench.stores.items() if name.endswith("/sessions"))) <= 4


def test_a_tick_closes_sessions() -> None:
    bench = Bench(grouped("COUNT", window=session(10, grace=0)))
    bench.step.process(0, [event(0, "a")])
    bench.step.tick(11)
    assert bench.step.process(0, [event(0, "a")]) == []
    assert bench.codes == ["late-record"]


rows = st.lists(st.tuples(st.integers(0, 80), st.sampled_from(["a", "b"]), st.integers(0, 5)), max_size=25)


@given(rows, st.sampled_from([session(5, 0), session(5, 10), session(10)]), cuts)
def test_any_batches_give_the_same_results(rows: list[Any], window: Any, cuts: set[int]) -> None:
    node = grouped("COUNT", "AVG n", "COLLECT_LIST n", "LATEST_BY_OFFSET n", "HISTOGRAM g", window=window)
    events = on_port(event(*row) for row in rows)
    assert Bench(node, old=True).run_cut(events, cuts) == Bench(node, old=True).run(events)


def _sessions(times: list[int], gap: int) -> dict[tuple[int, int], int]:
    found: list[list[int]] = []
    for time in sorted(times):
        if found and time - found[-1][-1] <= gap:
            found[-1].append(time)
        else:
            found.append([time])
    return {(group[0], group[-1]): len(group) for group in found}


@given(rows)
def test_sessions_agree_with_a_batch_computation(rows: list[Any]) -> None:
    out = Bench(grouped("COUNT", window=session(5))).run(on_port(event(*row) for row in rows))
    expected = {
        (group, bounds): (count,)
        for group in "ab"
        for bounds, count in _sessions([time for time, g, _ in rows if g == group], 5).items()
    }
    assert table_of(out) == expected
