"""Table-table joins: the changes that are sent, and that they add up to the join of both tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.nodes import JoinKind, TableJoin
from headrace.plan.relations import Kind
from tests.unit.plan.chain.join_inputs import Bench, cuts, is_chained, joined, keys, source, table_of, times

L, R = 0, 1
INNER, LEFT, RIGHT, FULL = JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL


def join(kind: JoinKind) -> TableJoin:
    left, right = source("l", Kind.TABLE, "a"), source("r", Kind.TABLE, "b", "c")
    return TableJoin(left, right, joined(Kind.TABLE, left, right), kind)


def l(time: int, a: str | None) -> tuple[int, Any]:  # noqa: E743
    return L, (time, (1,), None if a is None else (a,), None)


def r(time: int, b: str | None) -> tuple[int, Any]:
    return R, (time, (1,), None if b is None else (b, b.upper()), None)


STORY = [l(0, "x"), r(10, "y"), l(5, "z"), r(20, None), l(30, None), r(40, "w"), l(50, "v"), l(60, None), r(70, None)]
BOTH = [(10, ("x", "y", "Y")), (10, ("z", "y", "Y"))]
EXPECTED = {
    INNER: [*BOTH, (20, None), (50, ("v", "w", "W")), (60, None)],
    LEFT: [
        (0, ("x", None, None)),
        *BOTH,
        (20, ("z", None, None)),
        (30, None),
        (50, ("v", "w", "W")),
        (60, None),
    ],
    RIGHT: [*BOTH, (20, None), (40, (None, "w", "W")), (50, ("v", "w", "W")), (60, (None, "w", "W")), (70, None)],
    FULL: [
        (0, ("x", None, None)),
        *BOTH,
        (20, ("z", None, None)),
        (30, None),
        (40, (None, "w", "W")),
        (50, ("v", "w", "W")),
        (60, (None, "w", "W")),
        (70, None),
    ],
}


@pytest.mark.parametrize("kind", JoinKind)
def test_a_sequence_of_changes_has_its_results(kind: JoinKind) -> None:
    assert [(time, new) for time, _, new, _ in Bench(join(kind)).run(STORY)] == EXPECTED[kind]


def test_a_deletion_of_a_missing_row_is_sent_if_the_other_side_has_one() -> None:
    """As Kafka Streams does: only the other side is looked at."""
    assert Bench(join(INNER)).run([r(0, "y"), l(1, None)]) == [(1, (1,), None, None)]
    assert Bench(join(INNER)).run([l(1, None)]) == []
    assert Bench(join(FULL)).run([l(1, None)]) == []


def test_a_null_key_is_reported() -> None:
    bench = Bench(join(FULL))
    assert bench.run([(L, (0, None, ("x",), None))]) == []
    assert bench.codes == ["null-key"]


left = st.tuples(st.just(L), st.tuples(times, keys, st.none() | st.tuples(st.sampled_from("ab")), st.none()))
right = st.tuples(
    st.just(R), st.tuples(times, keys, st.none() | st.tuples(st.sampled_from("ab"), st.just("c")), st.none())
)
changes = st.lists(left | right, max_size=30)


def oracle(kind: JoinKind, entries: list[Any]) -> dict[Any, Any]:
    lefts, rights = (table_of(change for port, change in entries if port == side) for side in (L, R))
    wanted = {
        INNER: lefts.keys() & rights.keys(),
        LEFT: lefts.keys(),
        RIGHT: rights.keys(),
        FULL: lefts.keys() | rights.keys(),
    }[kind]
    return {key: lefts.get(key, (None,)) + rights.get(key, (None, None)) for key in wanted}


@pytest.mark.parametrize("kind", JoinKind)
@given(entries=changes)
def test_changes_add_up_to_the_join_of_both_tables(kind: JoinKind, entries: list[Any]) -> None:
    sent = Bench(join(kind), old=True).run(entries)
    assert table_of(sent) == oracle(kind, entries)
    assert is_chained(sent)


@pytest.mark.parametrize("kind", JoinKind)
@given(entries=changes, at=cuts)
def test_any_batches_give_the_same_results(kind: JoinKind, entries: list[Any], at: set[int]) -> None:
    node = join(kind)
    assert Bench(node).run_cut(entries, {min(c, len(entries)) for c in at}) == Bench(node).run(entries)
