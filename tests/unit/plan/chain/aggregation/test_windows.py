from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.chain.aggregation.windows import grace_of, milliseconds
from headrace.plan.relations import Window
from tests.unit.plan.chain.group_by import event, grouped, hopping, on_port, session, tumbling
from tests.unit.plan.chain.join_inputs import Bench, cuts, is_chained, table_of


def test_a_window_includes_its_start_and_excludes_its_end() -> None:
    bench = Bench(grouped("COUNT", window=tumbling(10)))
    assert bench.step.process(0, [event(0, "a"), event(9, "a"), event(10, "a")]) == [
        (0, ("a", (0, 10)), (1,), None),
        (9, ("a", (0, 10)), (2,), None),
        (10, ("a", (10, 20)), (1,), None),
    ]


def test_a_row_counts_in_every_window_that_contains_it() -> None:
    bench = Bench(grouped("COUNT", window=hopping(5000, 1000)))
    out = bench.step.process(0, [event(10345, "a"), event(13251, "a")])
    assert [(key[-1], new[0]) for _, key, new, _ in out] == [
        ((6000, 11000), 1),
        ((7000, 12000), 1),
        ((8000, 13000), 1),
        ((9000, 14000), 1),
        ((10000, 15000), 1),
        ((9000, 14000), 2),
        ((10000, 15000), 2),
        ((11000, 16000), 1),
        ((12000, 17000), 1),
        ((13000, 18000), 1),
    ]


def test_no_window_starts_before_the_epoch() -> None:
    bench = Bench(grouped("COUNT", window=hopping(30, 10)))
    assert [key[-1] for _, key, _, _ in bench.step.process(0, [event(12, "a")])] == [(0, 30), (10, 40)]


def test_late_rows_are_reported_and_dropped() -> None:
    bench = Bench(grouped("MAX n", window=tumbling(30_000, grace=60_000)))
    times = [(0, "a"), (89_999, "a"), (10_009, "a"), (90_000, "a"), (10_010, "a"), (10_009, "b"), (30_000, "b")]
    out = bench.step.process(0, [event(time, group) for time, group in times])
    assert [(time, key) for time, key, _, _ in out] == [
        (0, ("a", (0, 30_000))),
        (89_999, ("a", (60_000, 90_000))),
        (10_009, ("a", (0, 30_000))),
        (90_000, ("a", (90_000, 120_000))),
        (30_000, ("b", (30_000, 60_000))),
    ]
    assert [(problem.code, problem.time) for problem in bench.problems] == [
        ("late-record", 10_010),
        ("late-record", 10_009),
    ]


def test_a_row_late_for_some_windows_counts_in_the_others() -> None:
    bench = Bench(grouped("COUNT", window=hopping(30, 15, grace=0)))
    bench.step.process(0, [event(31, "a")])
    assert [key[-1] for _, key, _, _ in bench.step.process(0, [event(20, "a")])] == [(15, 45)]
    assert bench.codes == ["late-record"]


def test_a_row_without_a_group_does_not_advance_stream_time() -> None:
    bench = Bench(grouped("COUNT", window=tumbling(10, grace=0)))
    out = bench.step.process(0, [event(1, "a"), event(100, None), (200, (0,), None), event(2, "a")])
    assert [new for _, _, new, _ in out] == [(1,), (2,)]


def test_closed_windows_are_removed_from_the_state() -> None:
    bench = Bench(grouped("COUNT", window=tumbling(10, grace=5)))
    for time in range(0, 1000, 10):
        bench.step.process(0, [event(time, "a"), event(time, "b")])
    assert len(next(store for name, store in bench.stores.items() if name.endswith("/windows"))) <= 4


def test_a_tick_closes_windows() -> None:
    bench = Bench(grouped("COUNT", window=tumbling(10, grace=0)))
    bench.step.process(0, [event(1, "a")])
    assert bench.step.tick(10) == []
    assert bench.step.process(0, [event(2, "a")]) == []
    assert bench.codes == ["late-record"]
    assert bench.step.deadline() is None


@pytest.mark.parametrize(
    ("window", "grace"),
    [(tumbling(1000), 86_399_000), (tumbling(90_000_000), 0), (tumbling(10, grace=3), 3), (session(1000), 86_399_000)],
    ids=["a day", "never negative", "given", "session"],
)
def test_the_grace_period_defaults_to_that_of_ksqldb(window: Window, grace: int) -> None:
    assert grace_of(window) == grace


rows = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["a", "b", None]), st.integers(0, 5)), max_size=30)
windows = st.sampled_from([tumbling(10, 5), tumbling(7, 0), hopping(10, 5, 3), hopping(10, 3, 0), hopping(10, 5)])


@given(rows, windows, cuts)
def test_any_batches_give_the_same_results(rows: list[Any], window: Window, cuts: set[int]) -> None:
    node = grouped("COUNT", "SUM n", "EARLIEST_BY_OFFSET n", window=window)
    events = on_port(event(*row) for row in rows)
    whole = Bench(node, old=True).run(events)
    assert Bench(node, old=True).run_cut(events, cuts) == whole
    assert is_chained(whole)


@given(rows, st.sampled_from([tumbling(10, 100), hopping(10, 5, 100), hopping(9, 2, 100)]))
def test_counts_agree_with_a_batch_computation(rows: list[Any], window: Window) -> None:
    size, advance = milliseconds(window.size), milliseconds(window.advance)
    expected = Counter(
        (group, (start, start + size))
        for time, group, _ in rows
        for start in range(0, 70, advance)
        if group is not None and start <= time < start + size
    )
    out = Bench(grouped("COUNT", window=window)).run(on_port(event(*row) for row in rows))
    assert {key: new[0] for key, new in table_of(out).items()} == expected
