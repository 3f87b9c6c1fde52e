"""Windows with gaps between them, windows by processing time, and windows that close on idle input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.chain.interpreter import Chain
from headrace.plan.nodes import ProcessingTime, Query
from headrace.plan.relations import Window
from headrace.plan.steps import Context
from tests.unit.plan.chain.group_by import event, finished, grouped, hopping, ms, on_port, session, source, tumbling
from tests.unit.plan.chain.join_inputs import Bench, cuts, table_of

SAMPLED = hopping(10, 100, grace=0)


def chain_of(node: Any, **context: Any) -> Chain:
    return Chain(Query("q", cast(Any, node)), Context(**context))


# -- sampling -------------------------------------------------------------------------------------------------------


def test_rows_between_windows_are_ignored_without_a_report() -> None:
    bench = Bench(grouped("COUNT", window=SAMPLED))
    out = bench.run(on_port([event(0, "a"), event(9, "a"), event(10, "a"), event(99, "a"), event(105, "a")]))
    assert table_of(out) == {("a", (0, 10)): (2,), ("a", (100, 110)): (1,)}
    assert bench.codes == []


def test_a_row_between_windows_advances_stream_time() -> None:
    bench = Bench(grouped("COUNT", window=SAMPLED))
    assert bench.run(on_port([event(0, "a"), event(50, "a"), event(5, "a"), event(40, "a")])) == [
        (0, ("a", (0, 10)), (1,), None)
    ]
    assert bench.codes == ["late-record"]


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from("ab")), max_size=30), cuts)
def test_any_batches_of_sampled_windows_give_the_same_results(rows: list[Any], cuts: set[int]) -> None:
    node, entries = grouped("COUNT", window=hopping(10, 25, grace=20)), on_port(event(*row) for row in rows)
    assert Bench(node).run_cut(entries, {c for c in cuts if c <= len(entries)}) == Bench(node).run(entries)


# -- processing time ------------------------------------------------------------------------------------------------


def arriving(window: Window) -> Any:
    node = grouped("COUNT", window=window)
    return finished(replace(node, input=ProcessingTime(source(), source().relation)))


def test_by_processing_time_a_row_counts_when_it_arrives() -> None:
    arrived = iter([1005, 1009, 1012])
    chain = chain_of(arriving(tumbling(10, grace=0)), arrival=lambda: next(arrived))
    assert chain.feed("s", [event(3, "a"), event(777_777, "a")]) == []
    assert chain.feed("s", [event(1, "a")]) == []
    assert chain.feed("s", [event(2, "a")]) == [(1009, ("a", (1000, 1010)), (3,), None)]


def test_a_tick_closes_a_window_by_processing_time() -> None:
    chain = chain_of(arriving(tumbling(10, grace=0)), arrival=lambda: 1005)
    chain.feed("s", [event(3, "a")])
    assert chain.deadline() == 1010
    assert chain.tick(1010) == [(1005, ("a", (1000, 1010)), (1,), None)]
    chain.feed("s", [event(3, "a")])  # arrival does not go back behind the tick
    assert chain.tick(2000) == [(1010, ("a", (1010, 1020)), (1,), None)]


def test_without_a_processing_time_the_record_time_is_used_and_nothing_is_late() -> None:
    problems: list[Any] = []
    chain = chain_of(arriving(tumbling(10, grace=0)), report=problems.append)
    assert chain.feed("s", [event(5, "a"), event(12, "a"), event(3, "a")]) == [(5, ("a", (0, 10)), (1,), None)]
    assert chain.tick(20) == [(12, ("a", (10, 20)), (2,), None)]
    assert problems == []


# -- idle input -----------------------------------------------------------------------------------------------------


def test_an_idle_input_closes_its_windows_before_their_grace_period_ends() -> None:
    chain = chain_of(finished(grouped("COUNT", window=replace(tumbling(10, grace=10_000), idle=ms(50)))))
    chain.feed("s", [event(3, "a"), event(25, "b")])
    assert chain.deadline() == 75
    assert chain.tick(74) == []
    assert [key for _, key, _, _ in chain.tick(75)] == [("a", (0, 10)), ("b", (20, 30))]


def test_after_the_idle_timeout_only_later_windows_accept_rows() -> None:
    problems: list[Any] = []
    window = replace(tumbling(10, grace=10_000), idle=ms(50))
    chain = chain_of(finished(grouped("COUNT", window=window)), report=problems.append)
    chain.feed("s", [event(25, "a")])
    chain.tick(80)
    assert chain.feed("s", [event(26, "a"), event(31, "a")]) == []
    assert [p.code for p in problems] == ["late-record"]
    assert chain.tick(81) == [(31, ("a", (30, 40)), (1,), None)]


def test_an_idle_input_closes_its_sessions() -> None:
    chain = chain_of(finished(grouped("COUNT", window=replace(session(1000, grace=1000), idle=ms(50)))))
    chain.feed("s", [event(3, "a"), event(25, "a")])
    assert chain.tick(75) == [(25, ("a", (3, 25)), (2,), None)]
    chain.feed("s", [event(30, "a")])  # within the gap, but that session is closed
    assert chain.tick(80) == [(30, ("a", (30, 30)), (1,), None)]
