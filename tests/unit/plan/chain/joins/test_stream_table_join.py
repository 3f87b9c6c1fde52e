"""Stream-table joins: a row joins the table row that is current when it arrives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.nodes import JoinKind, StreamTableJoin
from headrace.plan.relations import Kind
from tests.unit.plan.chain.join_inputs import Bench, cuts, joined, keys, source, times

S, T = 0, 1


def join(kind: JoinKind) -> StreamTableJoin:
    left, right = source("s", Kind.STREAM, "a"), source("t", Kind.TABLE, "b", "c")
    return StreamTableJoin(left, right, joined(Kind.STREAM, left, right), kind)


STORY: list[tuple[int, Any]] = [
    (S, (5, (1,), ("too early",))),
    (T, (9, (1,), ("x", "y"), None)),
    (S, (3, (1,), ("old but after",))),
    (T, (10, (1,), (None, "z"), None)),
    (S, (11, (1,), (None,))),
    (S, (12, (2,), ("other",))),
    (T, (13, (1,), None, None)),
    (S, (14, (1,), ("gone",))),
    (S, (15, None, ("no key",))),
    (S, (16, (1,), None)),
]
MATCHED = [(3, (1,), ("old but after", "x", "y")), (11, (1,), (None, None, "z"))]


def test_an_inner_join_emits_matches_only() -> None:
    bench = Bench(join(JoinKind.INNER))
    assert bench.run(STORY) == MATCHED
    assert bench.codes == ["null-key", "null-value"]


def test_a_left_join_emits_every_row() -> None:
    bench = Bench(join(JoinKind.LEFT))
    assert bench.run(STORY) == [
        (5, (1,), ("too early", None, None)),
        *MATCHED,
        (12, (2,), ("other", None, None)),
        (14, (1,), ("gone", None, None)),
        (15, None, ("no key", None, None)),
    ]
    assert bench.codes == ["null-value"]


def test_a_deleted_row_is_removed_from_the_state() -> None:
    bench = Bench(join(JoinKind.INNER))
    bench.run([(T, (n, (n,), ("x", "y"), None)) for n in range(10)])
    bench.run([(T, (n, (n,), None, None)) for n in range(10)])
    assert bench.size == 0


stream = st.tuples(st.just(S), st.tuples(times, keys, st.none() | st.tuples(st.sampled_from("ab"))))
table = st.tuples(
    st.just(T), st.tuples(times, keys, st.none() | st.tuples(st.sampled_from("ab"), st.just("c")), st.none())
)


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
@given(entries=st.lists(stream | table, max_size=30), at=cuts)
def test_any_batches_give_the_same_results(kind: JoinKind, entries: list[Any], at: set[int]) -> None:
    node = join(kind)
    assert Bench(node).run_cut(entries, {min(c, len(entries)) for c in at}) == Bench(node).run(entries)
