"""Foreign-key joins: the changes sent for each left row, and that they add up to the join of both tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.expressions import Column
from headrace.plan.nodes import ForeignKeyJoin, JoinKind
from headrace.plan.relations import Kind
from headrace.plan.types import BIGINT
from tests.unit.plan.chain.join_inputs import Bench, cuts, is_chained, joined, keys, source, table_of, times

L, R = 0, 1
INNER, LEFT = JoinKind.INNER, JoinKind.LEFT


def join(kind: JoinKind, key_format: str = "KAFKA") -> ForeignKeyJoin:
    left = source("l", Kind.TABLE, "a", "n_ref", key_format=key_format)
    right = source("r", Kind.TABLE, "b")
    return ForeignKeyJoin(left, right, joined(Kind.TABLE, left, right), kind, Column(BIGINT, "n_ref"))


def l(time: int, key: int, *row: Any) -> tuple[int, Any]:  # noqa: E743
    return L, (time, (key,), row or None, None)


def r(time: int, key: int, *row: Any) -> tuple[int, Any]:
    return R, (time, (key,), row or None, None)


CASES = {
    "inner": (
        INNER,
        [r(0, 0, "u"), l(10, 1, "x", 0), l(13, 0, "y", 100), r(15, 0, "v"), l(16, 10, "z", 0), r(17, 0), l(18, 1)],
        [
            (10, 1, ("x", 0, "u")),
            (15, 1, ("x", 0, "v")),
            (16, 10, ("z", 0, "v")),
            (17, 1, None),
            (17, 10, None),
            (18, 1, None),
        ],
    ),
    "left": (
        LEFT,
        [l(0, 1, "x", 0), r(10, 0, "u"), l(13, 0, "y", 100), r(15, 0), l(18, 1), l(19, 0), l(20, 0)],
        [
            (0, 1, ("x", 0, None)),
            (10, 1, ("x", 0, "u")),
            (13, 0, ("y", 100, None)),
            (15, 1, ("x", 0, None)),
            (18, 1, None),
            (19, 0, None),
        ],
    ),
    "inner: the reference changes": (
        INNER,
        [r(0, 0, "u"), r(9, 8, "v"), l(1, 1, "x", 0), l(2, 1, "x", 8), r(3, 0, "w"), l(4, 1, "x", 5), l(5, 1, "x", 5)],
        [(1, 1, ("x", 0, "u")), (9, 1, ("x", 8, "v")), (4, 1, None)],
    ),
    "inner: a null reference takes the result back": (
        INNER,
        [l(0, 1, "x", None), r(5, 0, "u"), l(6, 1, "x", 0), l(7, 1, "x", None), l(8, 1)],
        [(6, 1, ("x", 0, "u")), (7, 1, None)],
    ),
    "left: a null reference is a row without a match": (
        LEFT,
        [l(0, 1, "x", None), r(5, 0, "u"), l(6, 1, "x", 0), l(7, 1, "x", None), r(8, 0, "v")],
        [(0, 1, ("x", None, None)), (6, 1, ("x", 0, "u")), (7, 1, ("x", None, None))],
    ),
    "the time is the later of both": (
        INNER,
        [r(50, 0, "u"), l(10, 1, "x", 0), l(60, 2, "y", 0), r(55, 0, "v"), l(20, 1)],
        [(50, 1, ("x", 0, "u")), (60, 2, ("y", 0, "u")), (55, 1, ("x", 0, "v")), (60, 2, ("y", 0, "v")), (55, 1, None)],
    ),
}


@pytest.mark.parametrize(("kind", "entries", "expected"), CASES.values(), ids=CASES.keys())
def test_documented_cases_have_their_results(kind: JoinKind, entries: list[Any], expected: list[Any]) -> None:
    assert Bench(join(kind)).run(entries) == [(time, (key,), new, None) for time, key, new in expected]


@pytest.mark.parametrize(("key_format", "order"), [("KAFKA", [2, 10, -1]), ("JSON", [-1, 10, 2])])
def test_subscribers_are_updated_in_the_byte_order_of_their_keys(key_format: str, order: list[int]) -> None:
    sent = Bench(join(INNER, key_format)).run([l(0, 10, "x", 0), l(0, -1, "y", 0), l(0, 2, "z", 0), r(1, 0, "u")])
    assert [key for _, (key,), _, _ in sent] == order


def test_null_references_of_an_inner_join_are_reported() -> None:
    bench = Bench(join(INNER))
    bench.run([l(0, 1, "x", None)])
    assert bench.codes == ["null-reference"]


def test_deleted_rows_are_removed_from_the_state() -> None:
    bench = Bench(join(LEFT), old=True)
    bench.run([l(n, n, "x", n % 3) for n in range(20)] + [r(n, n, "u") for n in range(3)])
    bench.run([l(n, n) for n in range(20)] + [r(n, n) for n in range(3)])
    assert bench.size == 0


references = st.none() | st.integers(0, 3)
left = st.tuples(
    st.just(L), st.tuples(times, keys, st.none() | st.tuples(st.sampled_from("ab"), references), st.none())
)
right = st.tuples(st.just(R), st.tuples(times, keys, st.none() | st.tuples(st.sampled_from("cd")), st.none()))
changes = st.lists(left | right, max_size=30)


def oracle(kind: JoinKind, entries: list[Any]) -> dict[Any, Any]:
    lefts, rights = (table_of(change for port, change in entries if port == side) for side in (L, R))
    return {
        key: row + rights.get((row[1],), (None,)) for key, row in lefts.items() if kind is LEFT or (row[1],) in rights
    }


@pytest.mark.parametrize("kind", [INNER, LEFT])
@given(entries=changes)
def test_changes_add_up_to_the_join_of_both_tables(kind: JoinKind, entries: list[Any]) -> None:
    sent = Bench(join(kind), old=True).run(entries)
    assert table_of(sent) == oracle(kind, entries)
    assert is_chained(sent)


@pytest.mark.parametrize("kind", [INNER, LEFT])
@given(entries=changes, at=cuts)
def test_any_batches_give_the_same_results(kind: JoinKind, entries: list[Any], at: set[int]) -> None:
    node = join(kind)
    assert Bench(node).run_cut(entries, {min(c, len(entries)) for c in at}) == Bench(node).run(entries)
