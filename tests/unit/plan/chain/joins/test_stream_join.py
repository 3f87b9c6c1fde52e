"""Stream-stream joins: which rows pair, which are emitted alone and when, and bounded state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.plan.nodes import JoinKind, StreamJoin
from headrace.plan.relations import Kind
from tests.unit.plan.chain.join_inputs import Bench, cuts, joined, keys, source, times

L, R = 0, 1
MINUTE = 60_000


def join(
    kind: JoinKind, before: int, after: int | None = None, grace: int | None = None, key_format: str = "KAFKA"
) -> Any:
    left = source("l", Kind.STREAM, "a", key_format=key_format)
    right = source("r", Kind.STREAM, "b", "c")
    return StreamJoin(
        left,
        right,
        joined(Kind.STREAM, left, right),
        kind,
        timedelta(milliseconds=before),
        timedelta(milliseconds=before if after is None else after),
        None if grace is None else timedelta(milliseconds=grace),
    )


def l(time: int, key: int | None, a: str) -> tuple[int, Any]:  # noqa: E743
    return L, (time, None if key is None else (key,), (a,))


def r(time: int, key: int | None, b: str) -> tuple[int, Any]:
    return R, (time, None if key is None else (key,), (b, b.upper()))


CASES = {
    "inner: pairs in the time of the later": (
        join(JoinKind.INNER, 10),
        [l(0, 1, "x"), r(10, 1, "y"), r(11, 1, "far"), r(5, 2, "other key"), l(12, 1, "z")],
        [(10, (1,), ("x", "y", "Y")), (12, (1,), ("z", "y", "Y")), (12, (1,), ("z", "far", "FAR"))],
    ),
    "partners by time, those of one time as they came": (
        join(JoinKind.INNER, 10),
        [r(5, 1, "c"), r(3, 1, "a"), r(5, 1, "d"), r(3, 1, "b"), l(4, 1, "x")],
        [(t, (1,), ("x", b, b.upper())) for t, b in ((4, "a"), (4, "b"), (5, "c"), (5, "d"))],
    ),
    "before and after are the right row's, seen from the left": (
        join(JoinKind.INNER, 2, 5),
        [
            r(7, 1, "too early"),
            r(8, 1, "first"),
            r(15, 1, "last"),
            r(16, 1, "too late"),
            l(10, 1, "x"),
            r(12, 1, "new"),
        ],
        [(10, (1,), ("x", "first", "FIRST")), (15, (1,), ("x", "last", "LAST")), (12, (1,), ("x", "new", "NEW"))],
    ),
    "left without grace: alone at once, then the pair": (
        join(JoinKind.LEFT, 10),
        [l(0, 1, "x"), r(5, 1, "y"), r(5, 2, "z")],
        [(0, (1,), ("x", None, None)), (5, (1,), ("x", "y", "Y"))],
    ),
    "right without grace": (
        join(JoinKind.RIGHT, 10),
        [l(0, 1, "x"), r(5, 1, "y"), r(5, 2, "z")],
        [(5, (1,), ("x", "y", "Y")), (5, (2,), (None, "z", "Z"))],
    ),
    "full without grace": (
        join(JoinKind.FULL, 10),
        [l(0, 1, "x"), r(5, 2, "z"), l(6, 2, "y")],
        [(0, (1,), ("x", None, None)), (5, (2,), (None, "z", "Z")), (6, (2,), ("y", "z", "Z"))],
    ),
    "with grace a row waits until its window is over": (
        join(JoinKind.LEFT, 10, grace=5),
        [l(0, 1, "x"), r(15, 9, "still open"), r(16, 9, "over")],
        [(0, (1,), ("x", None, None))],
    ),
    "what is over comes before the pairs of the row that ends it": (
        join(JoinKind.LEFT, 10, grace=0),
        [l(0, 1, "x"), r(9, 2, "y"), l(11, 2, "z")],
        [(0, (1,), ("x", None, None)), (11, (2,), ("z", "y", "Y"))],
    ),
    "what is over comes by time, right before left, then key": (
        join(JoinKind.FULL, 10, grace=0),
        [l(1, 3, "c"), l(1, 2, "b"), r(1, 9, "a"), l(0, 4, "first"), l(1, 2, "b again"), l(30, 5, "end")],
        [
            (0, (4,), ("first", None, None)),
            (1, (9,), (None, "a", "A")),
            (1, (2,), ("b", None, None)),
            (1, (2,), ("b again", None, None)),
            (1, (3,), ("c", None, None)),
        ],
    ),
    "keys of a text format are ordered as text": (
        join(JoinKind.LEFT, 10, grace=0, key_format="JSON"),
        [l(0, 2, "two"), l(0, 10, "ten"), l(30, 5, "end")],
        [(0, (10,), ("ten", None, None)), (0, (2,), ("two", None, None))],
    ),
    "a row that met somebody does not go out alone": (
        join(JoinKind.FULL, 10, grace=0),
        [l(0, 1, "x"), r(5, 1, "y"), l(100, 2, "end")],
        [(5, (1,), ("x", "y", "Y"))],
    ),
    "a late row of an outer side goes out alone, and nobody meets it": (
        join(JoinKind.LEFT, MINUTE, grace=MINUTE),
        [
            l(0, 0, "A"),
            r(MINUTE, 0, "a"),
            l(330_000, 1, "B"),
            l(90_000, 2, "C"),
            r(90_000, 2, "c"),
            l(60_000, 3, "D"),
            r(60_000, 3, "d"),
        ],
        [(MINUTE, (0,), ("A", "a", "A")), (90_000, (2,), ("C", None, None)), (60_000, (3,), ("D", None, None))],
    ),
    "a null key meets nobody, which only an outer side says": (
        join(JoinKind.LEFT, 10),
        [l(0, None, "x"), r(0, None, "y")],
        [(0, None, ("x", None, None))],
    ),
    "no value is nothing to join": (join(JoinKind.FULL, 10), [(L, (0, (1,), None))], []),
}


@pytest.mark.parametrize(("node", "entries", "expected"), CASES.values(), ids=CASES.keys())
def test_documented_cases_have_their_results(node: StreamJoin, entries: list[Any], expected: list[Any]) -> None:
    assert Bench(node).run(entries) == expected


def test_late_and_null_rows_are_reported() -> None:
    bench = Bench(join(JoinKind.INNER, 10, grace=0))
    bench.run([l(100, 1, "x"), l(80, 1, "late"), l(81, 1, "not yet"), r(0, None, "y"), (L, (0, (1,), None))])
    assert bench.codes == ["late-record", "null-key", "null-value"]


def test_lists_and_maps_can_be_keys() -> None:
    entries = [(L, (0, ([3, 1],), ("x",))), (R, (1, ([3, 1],), ("y", "Y"))), (R, (1, ([1, 3],), ("z", "Z")))]
    assert Bench(join(JoinKind.INNER, 10)).run(entries) == [(1, ([3, 1],), ("x", "y", "Y"))]


def test_a_tick_closes_windows() -> None:
    bench = Bench(join(JoinKind.LEFT, 10, grace=5))
    assert bench.step.tick(1000) == []
    bench.run([l(0, 1, "x"), l(3, 2, "y")])
    assert bench.step.deadline() == 16
    assert bench.step.tick(15) == []
    assert bench.step.tick(16) == [(0, (1,), ("x", None, None))]
    assert bench.step.deadline() == 19
    assert bench.step.tick(19) == [(3, (2,), ("y", None, None))]
    assert bench.step.deadline() is None


def test_a_row_after_the_tick_that_closed_its_window_is_late() -> None:
    bench = Bench(join(JoinKind.LEFT, 10, grace=0))
    bench.run([l(0, 1, "x")])
    bench.step.tick(50)
    assert bench.run([r(5, 1, "y")]) == []
    assert bench.codes == ["late-record"]


@pytest.mark.parametrize("kind", JoinKind)
def test_the_size_of_the_state_is_bounded(kind: JoinKind) -> None:
    bench = Bench(join(kind, 10, grace=10))
    sizes = []
    for time in range(2000):
        bench.run([l(time, time, "x"), r(time, -time, "y"), l(time, 7, "z")])
        sizes.append(bench.size)
    assert max(sizes[1000:]) <= max(sizes[100:1000])


rows = st.lists(
    st.tuples(st.integers(0, 1), times, keys, st.sampled_from("abc")).map(
        lambda e: (e[0], (e[1], e[2], (e[3],) if e[0] == L else (e[3], e[3])))
    ),
    max_size=30,
)
kinds = st.sampled_from(list(JoinKind))
graces = st.sampled_from([None, 0, 3])


@given(kinds, graces, st.integers(0, 8), st.integers(0, 8), rows, cuts)
def test_any_batches_give_the_same_results(
    kind: JoinKind, grace: int | None, before: int, after: int, entries: list[Any], at: set[int]
) -> None:
    node = join(kind, before, after, grace)
    assert Bench(node).run_cut(entries, {min(c, len(entries)) for c in at}) == Bench(node).run(entries)


@example(JoinKind.LEFT, 1, 2, 2, [l(40, 1, "x"), r(5, 1, "y")], {1})
@given(kinds, graces, st.integers(0, 8), st.integers(0, 8), rows, cuts)
def test_a_tick_that_does_not_advance_time_changes_nothing(
    kind: JoinKind, grace: int | None, before: int, after: int, entries: list[Any], at: set[int]
) -> None:
    node = join(kind, before, after, grace)
    plain, ticked, found = Bench(node), Bench(node), list[Any]()
    for place, entry in enumerate(entries):
        if place in at:
            found += ticked.step.tick(0)
        found += ticked.run([entry])
    assert (found, ticked.codes) == ([e for entry in entries for e in plain.run([entry])], plain.codes)


def pairs(entries: list[Any], before: int, after: int) -> list[Any]:
    return sorted(
        (max(t, u), k, row + other)
        for p, (t, k, row) in entries
        for q, (u, j, other) in entries
        if p == L and q == R and k == j and -before <= u - t <= after
    )


@given(st.sampled_from([None, 100]), st.integers(0, 8), st.integers(0, 8), rows)
def test_an_inner_join_emits_all_pairs_if_no_row_is_late(
    grace: int | None, before: int, after: int, entries: list[Any]
) -> None:
    bench = Bench(join(JoinKind.INNER, before, after, grace))
    assert sorted(bench.run(entries)) == pairs(entries, before, after)
    assert not bench.problems


@given(kinds, st.integers(0, 8), st.integers(0, 8), rows)
def test_with_a_grace_period_each_row_is_emitted_in_pairs_or_once_alone(
    kind: JoinKind, before: int, after: int, entries: list[Any]
) -> None:
    """Rows in time order: none is late, so what goes out is SQL's outer join."""
    entries = sorted(entries, key=lambda e: e[1][0])
    bench = Bench(join(kind, before, after, 5))
    found = bench.run(entries) + bench.step.tick(1000)
    expected = pairs(entries, before, after)
    for port, (time, key, row) in entries:
        theirs = [e for e in entries if e[0] != port]
        mine = [(port, (time, key, row)), *theirs]
        if not pairs(mine, before, after) and (kind, port) in ALONE:
            expected.append((time, key, (*row, None, None) if port == L else (None, *row)))
    assert sorted(found, key=repr) == sorted(expected, key=repr)


ALONE = {(JoinKind.LEFT, L), (JoinKind.RIGHT, R), (JoinKind.FULL, L), (JoinKind.FULL, R)}
