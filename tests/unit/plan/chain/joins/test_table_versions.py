"""Stream with table by event time: the row that was valid at the stream row's own time."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.nodes import JoinKind, StreamTableJoin
from headrace.plan.relations import Kind
from tests.unit.plan.chain.group_by import ms
from tests.unit.plan.chain.join_inputs import Bench, cuts, joined, keys, source, times

ROWS, TABLE = source("rows", Kind.STREAM, "v"), source("table", Kind.TABLE, "w")


def node(kind: JoinKind = JoinKind.INNER, history: int = 1000) -> StreamTableJoin:
    return StreamTableJoin(ROWS, TABLE, joined(Kind.STREAM, ROWS, TABLE), kind, ms(history))


def row(time: int, value: str = "r", key: int | None = 1) -> tuple[int, Any]:
    return 0, (time, None if key is None else (key,), (value,))


def change(time: int, value: str | None, key: int = 1) -> tuple[int, Any]:
    return 1, (time, (key,), None if value is None else (value,), None)


def test_a_row_joins_the_version_valid_at_its_time() -> None:
    out = Bench(node()).run([change(10, "a"), change(20, "b"), row(25), row(20), row(19), row(10), row(9)])
    assert [(time, both) for time, _, both in out] == [
        (25, ("r", "b")),
        (20, ("r", "b")),
        (19, ("r", "a")),
        (10, ("r", "a")),
    ]


def test_before_the_first_version_and_after_a_deletion_there_is_no_match() -> None:
    bench = Bench(node(JoinKind.LEFT))
    out = bench.run([change(10, "a"), change(20, None), change(30, "c"), row(5), row(15), row(25), row(35)])
    assert [both[1] for _, _, both in out] == [None, "a", None, "c"]


def test_a_late_change_counts_for_later_rows() -> None:
    bench = Bench(node())
    assert [both for *_, both in bench.run([change(10, "a"), change(30, "c"), row(25)])] == [("r", "a")]
    assert [both for *_, both in bench.run([change(20, "b"), row(25), row(35)])] == [("r", "b"), ("r", "c")]


def test_the_last_of_two_changes_with_one_time_is_valid() -> None:
    assert [both for *_, both in Bench(node()).run([change(10, "a"), change(10, "b"), row(10)])] == [("r", "b")]


def test_a_row_that_is_older_than_the_history_is_late() -> None:
    bench = Bench(node(JoinKind.LEFT, history=100))
    out = bench.run([change(10, "a"), row(200), row(100), row(99)])
    assert [time for time, *_ in out] == [200, 100]
    assert [(p.code, p.time, p.key, p.row) for p in bench.problems] == [("late-record", 99, (1,), ("r",))]


def test_versions_older_than_the_history_are_removed_from_the_state() -> None:
    bench = Bench(node(history=10))
    bench.run([change(time, str(time)) for time in range(0, 1000, 5)] + [change(0, "b", 2), change(1, None, 2)])
    bench.run([row(2000, key=3)])
    assert bench.stores["enrich-0/versions"] == {(1,): [(995, ("995",))]}
    assert [both for *_, both in bench.run([row(1995)])] == [("r", "995")]


def test_a_row_with_a_null_key_is_reported_or_emitted_alone() -> None:
    inner, left = Bench(node()), Bench(node(JoinKind.LEFT))
    assert inner.run([row(5, key=None)]) == []
    assert left.run([row(5, key=None)]) == [(5, None, ("r", None))]
    assert (inner.codes, left.codes) == (["null-key"], [])


rows = st.tuples(st.just(0), st.tuples(times, keys, st.just(("r",))))
changes = st.tuples(
    st.just(1), st.tuples(times, keys, st.one_of(st.none(), st.tuples(st.sampled_from("abc"))), st.none())
)


@given(st.lists(changes, max_size=15), st.lists(rows, max_size=15))
def test_the_order_of_the_rows_does_not_matter(changes: list[Any], rows: list[Any]) -> None:
    outs = [Bench(node(JoinKind.LEFT)).run(changes + order) for order in (rows, rows[::-1])]
    assert outs[0] == outs[1][::-1]
    for time, key, both in outs[0]:
        versions = [(c[0], new) for _, (*c, new, _) in changes if c[1] == key and c[0] <= time]
        latest = max((at for at, _ in versions), default=None)
        valid = [new for at, new in versions if at == latest]
        assert both[1:] == ((valid[-1] if valid else None) or (None,))


@given(st.lists(st.one_of(rows, changes), max_size=25), cuts, st.sampled_from([0, 10, 1000]))
def test_any_batches_give_the_same_results(entries: list[Any], cuts: set[int], history: int) -> None:
    whole, cut = Bench(node(history=history)), Bench(node(history=history))
    assert cut.run_cut(entries, {c for c in cuts if c <= len(entries)}) == whole.run(entries)
    assert cut.codes == whole.codes
