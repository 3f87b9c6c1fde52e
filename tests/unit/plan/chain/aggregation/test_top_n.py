"""ORDER BY ... LIMIT: which rows enter, leave and return."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.expressions import Column
from headrace.plan.nodes import TopN
from headrace.plan.relations import Kind, Relation
from headrace.plan.types import BIGINT, STRING
from tests.unit.plan.chain.join_inputs import Bench, cuts, is_chained, keys, source, table_of


def top(kind: Kind, count: int, *order: tuple[str, bool]) -> TopN:
    below = source("t", kind, "n_score", "a")
    relation = Relation(Kind.TABLE, below.relation.key, below.relation.value)
    types = {"n_score": BIGINT, "a": STRING}
    return TopN(below, relation, tuple((Column(types[name], name), down) for name, down in order), count)


HIGHEST = ("n_score", True)


def row(time: int, key: int, score: int | None, a: str = "x") -> tuple[int, Any]:
    return 0, (time, (key,), (score, a), None)


def gone(time: int, key: int) -> tuple[int, Any]:
    return 0, (time, (key,), None, None)


def event(time: int, key: int, score: int | None, a: str = "x") -> tuple[int, Any]:
    return 0, (time, (key,), (score, a))


def brief(sent: list[Any]) -> list[Any]:
    return [(time, key[0], new and new[0]) for time, key, new, _ in sent]


def test_a_row_that_enters_displaces_the_last() -> None:
    sent = Bench(top(Kind.TABLE, 2, HIGHEST)).run([row(0, 1, 10), row(1, 2, 20), row(2, 3, 5), row(3, 4, 15)])
    assert brief(sent) == [(0, 1, 10), (1, 2, 20), (3, 1, None), (3, 4, 15)]


def test_a_deletion_lets_the_next_best_in() -> None:
    sent = Bench(top(Kind.TABLE, 1, HIGHEST)).run([row(0, 1, 10), row(1, 2, 20), gone(2, 2), gone(3, 9), gone(4, 1)])
    assert brief(sent) == [(0, 1, 10), (1, 1, None), (1, 2, 20), (2, 2, None), (2, 1, 10), (4, 1, None)]


def test_a_row_that_falls_out_is_deleted_and_one_that_stays_is_updated() -> None:
    sent = Bench(top(Kind.TABLE, 1, HIGHEST)).run([row(0, 1, 10), row(1, 2, 5), row(2, 1, 8), row(3, 1, 1)])
    assert brief(sent) == [(0, 1, 10), (2, 1, 8), (3, 1, None), (3, 2, 5)]


def test_equal_rows_keep_their_order_of_arrival() -> None:
    sent = Bench(top(Kind.TABLE, 1, HIGHEST)).run([row(0, 1, 10, "x"), row(1, 2, 10), row(2, 1, 10, "y")])
    assert brief(sent) == [(0, 1, 10), (2, 1, 10)]


@pytest.mark.parametrize("down", [True, False])
def test_nulls_are_sorted_last(down: bool) -> None:
    sent = Bench(top(Kind.TABLE, 1, ("n_score", down))).run([row(0, 1, None), row(1, 2, 10), row(2, 3, None)])
    assert brief(sent) == [(0, 1, None), (1, 1, None), (1, 2, 10)]


def test_a_stream_stores_the_best_row_of_each_key_up_to_the_limit() -> None:
    bench = Bench(top(Kind.STREAM, 2, HIGHEST))
    sent = bench.run(
        [event(0, 1, 10), event(1, 1, 5), event(2, 1, 11), event(3, 2, 20), event(4, 3, 15), event(5, 4, 1)]
    )
    assert brief(sent) == [(0, 1, 10), (2, 1, 11), (3, 2, 20), (4, 1, None), (4, 3, 15)]
    for key in range(1000):
        bench.run([event(key, key, key)])
    assert bench.size == 3


def test_rows_without_key_or_value_are_reported() -> None:
    bench = Bench(top(Kind.STREAM, 2, HIGHEST))
    assert bench.run([(0, (0, None, (1, "x"))), (0, (0, (1,), None))]) == []
    assert bench.codes == ["null-key", "null-value"]


rows = st.tuples(st.none() | st.integers(0, 5), st.sampled_from("abc"))
changes = st.lists(st.tuples(st.just(0), st.tuples(st.integers(0, 9), keys, st.none() | rows, st.none())), max_size=30)
ORDER = (("n_score", True), ("a", False))


def rank(entry: tuple[Any, Any]) -> Any:
    score, a = entry[1]
    return (score is None, -(score or 0), a)


@given(st.integers(0, 4), changes)
def test_changes_add_up_to_the_first_rows(count: int, entries: list[Any]) -> None:
    sent = Bench(top(Kind.TABLE, count, *ORDER), old=True).run(entries)
    shown, everything = table_of(sent), table_of(change for _, change in entries)
    assert sorted(map(rank, shown.items())) == sorted(map(rank, everything.items()))[:count]
    assert shown.items() <= everything.items()
    assert is_chained(sent)


@given(st.integers(1, 3), changes)
def test_there_are_never_more_rows_than_the_limit(count: int, entries: list[Any]) -> None:
    sent = Bench(top(Kind.TABLE, count, *ORDER)).run(entries)
    assert all(len(table_of(sent[:end])) <= count for end in range(len(sent) + 1))


@pytest.mark.parametrize("kind", Kind)
@given(entries=changes, at=cuts)
def test_any_batches_give_the_same_results(kind: Kind, entries: list[Any], at: set[int]) -> None:
    node = top(kind, 2, *ORDER)
    given_ = entries if kind is Kind.TABLE else [(port, change[:3]) for port, change in entries]
    assert Bench(node).run_cut(given_, {min(c, len(given_)) for c in at}) == Bench(node).run(given_)
