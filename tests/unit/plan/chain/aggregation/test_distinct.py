from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.chain.aggregation.open_windows import PIECE_SIZE, OpenWindows
from headrace.plan.chain.aggregation.windows import grace_of, milliseconds
from headrace.plan.expressions import Column, NamedExpression
from headrace.plan.nodes import Distinct, Source
from headrace.plan.relations import Format, Kind, Relation, Window
from headrace.plan.steps import Store
from headrace.plan.types import BIGINT, DOUBLE, array
from headrace.schema import Field
from tests.unit.plan.chain.group_by import G, N, event, on_port, source, tumbling
from tests.unit.plan.chain.join_inputs import Bench, cuts


def distinct(*columns: Column, window: Window | None = None, over: Source | None = None) -> Distinct:
    under = over or source()
    return Distinct(under, under.relation, tuple(NamedExpression(column.name, column) for column in columns), window)


def test_the_first_of_equal_rows_passes_unchanged() -> None:
    bench = Bench(distinct(G))
    rows = [event(5, "a", 1), event(3, "a", 2), event(4, "b", 3), event(9, "b", 3), event(1, "a", 1)]
    assert bench.step.process(0, rows) == [rows[0], rows[2]]
    assert bench.step.process(0, [event(2, "a"), last := event(2, "c")]) == [last]
    assert bench.codes == []


def test_all_values_of_on_are_compared_and_nulls_are_equal() -> None:
    bench = Bench(distinct(G, N))
    rows = [event(1, None, 1), event(1, None, 1), event(1, None, None), event(1, None, None), event(1, "a", None)]
    assert bench.step.process(0, rows) == [rows[0], rows[2], rows[4]]


def test_distinct_may_compare_the_key() -> None:
    bench = Bench(distinct(Column(BIGINT, "id")))
    rows: list[Any] = [
        (1, (1,), ("a", 1)),
        (1, (2,), ("a", 1)),
        (1, (1,), ("b", 2)),
        (1, None, ("a", 1)),
        (2, None, (None, 2)),
    ]
    assert bench.step.process(0, rows) == [rows[0], rows[1], rows[3]]


def test_a_record_without_a_payload_is_reported() -> None:
    bench = Bench(distinct(G, window=tumbling(10, 0)))
    assert bench.step.process(0, [(100, (1,), None), kept := event(1, "a")]) == [kept]
    assert [(problem.code, problem.where) for problem in bench.problems] == [("null-value", "DISTINCT g")]


@pytest.mark.parametrize(
    ("kind", "same", "other"),
    [
        (DOUBLE, (math.nan, float("nan")), 1.0),
        (DOUBLE, (0.0, -0.0), math.nan),
        (array(DOUBLE), ([1.0, math.nan], [1.0, float("nan")]), [1.0]),
    ],
    ids=["not a number", "zero", "lists"],
)
def test_values_are_compared_by_sql_equality(kind: Any, same: tuple[Any, Any], other: Any) -> None:
    relation = Relation(Kind.STREAM, (), (Field("v", kind),))
    over = Source("s", "s", relation, Format("KAFKA"), Format("JSON"))
    bench = Bench(distinct(Column(kind, "v"), over=over))
    rows: list[Any] = [(1, None, (same[0],)), (2, None, (same[1],)), (3, None, (other,))]
    assert bench.step.process(0, rows) == [rows[0], rows[2]]


# -- windows --------------------------------------------------------------------------------------------------------


def test_each_window_passes_its_first_row() -> None:
    bench = Bench(distinct(G, window=tumbling(10, 5)))
    rows = [event(9, "a"), event(1, "a"), event(10, "a"), event(3, "b"), event(2, "b"), event(19, "a")]
    assert bench.step.process(0, rows) == [rows[0], rows[2], rows[3]]
    assert bench.codes == []


def test_late_rows_are_reported_and_dropped() -> None:
    bench = Bench(distinct(G, window=tumbling(10, 5)))
    rows = [event(1, "a"), event(14, "a"), event(2, "b"), event(15, "a"), event(3, "c"), event(10, "c")]
    assert bench.step.process(0, rows) == [rows[0], rows[1], rows[2], rows[5]]
    assert [(problem.code, problem.time, problem.row) for problem in bench.problems] == [("late-record", 3, ("c", 1))]


def test_a_repeated_row_advances_stream_time() -> None:
    bench = Bench(distinct(G, window=tumbling(10, 0)))
    bench.step.process(0, [event(1, "a"), event(11, "a"), event(19, "a"), event(20, "a")])
    assert bench.step.process(0, [event(15, "b")]) == []
    assert bench.codes == ["late-record"]


def test_a_closed_window_is_removed_from_the_state() -> None:
    bench = Bench(distinct(G, window=tumbling(10, 5)))
    for time in range(0, 1000, 10):
        bench.step.process(0, [event(time, "a"), event(time, "b")])
    assert len(bench.stores["distinct-0/seen"]) <= 4
    assert bench.step.tick(10_000) == []
    assert not bench.stores["distinct-0/seen"]
    assert bench.step.process(0, [event(999, "a")]) == []
    assert bench.codes == ["late-record"]
    assert bench.step.deadline() is None


# -- beside a model -------------------------------------------------------------------------------------------------

rows = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 60), st.just((0,)), st.just(None)),
        st.builds(event, st.integers(0, 60), st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, None])),
    ),
    max_size=30,
)
windows = st.sampled_from([None, tumbling(10, 5), tumbling(7, 0), tumbling(10), tumbling(1, 20)])


def model(rows: list[Any], window: Window | None) -> tuple[list[Any], list[Any]]:
    """The rows that pass and the rows that are reported, computed from all rows so far."""
    on, left_out, seen, now = [], [], [], -1
    for time, key, row in rows:
        if row is None:
            left_out.append(("null-value", time))
            continue
        now = max(now, time)
        size = milliseconds(window.size) if window else None
        number = time // size if size else 0
        if window and size and (number + 1) * size + grace_of(window) <= now:
            left_out.append(("late-record", time))
        elif (row, number) not in seen:
            seen.append((row, number))
            on.append((time, key, row))
    return on, left_out


@given(rows, windows, cuts)
def test_any_batches_agree_with_the_model(rows: list[Any], window: Window | None, cuts: set[int]) -> None:
    bench = Bench(distinct(G, N, window=window))
    on, left_out = model(rows, window)
    assert bench.run_cut(on_port(rows), cuts) == on
    assert [(problem.code, problem.time) for problem in bench.problems] == left_out


# -- what is to close -----------------------------------------------------------------------------------------------


class Written(dict[Any, Any]):
    """Counts the places that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.places = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.places += len(value) if isinstance(value, list) else 0


def test_many_windows_with_one_start_are_not_rewritten() -> None:
    store = Written()
    closing = OpenWindows(store)
    places = [(number, 0) for number in range(20 * PIECE_SIZE + 3)]
    for place in places:
        closing.note([place])
    assert store.places < len(places) * PIECE_SIZE
    closing.note([("late", 10)])
    assert list(closing.take(9)) == places
    assert list(closing.take(10)) == [("late", 10)]
    assert store == {(): []}


def test_windows_stored_in_the_old_layout_are_found() -> None:
    before: Store = {(): [0], (0,): [(number, 0) for number in range(3 * PIECE_SIZE)]}
    closing = OpenWindows(before)
    closing.note([("new", 0)])
    assert len(list(closing.take(0))) == 3 * PIECE_SIZE + 1
    assert before == {(): []}
