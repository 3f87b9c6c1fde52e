"""Merged changes of a batch: the last of each key, in order, with its headers, and which sinks allow it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.record.results import Results, can_merge_changes, merge_changes
from headrace.plan import types as ty
from headrace.plan.relations import Kind, Relation
from headrace.schema import Field
from tests.ksql_strategies import planned


def table(*kinds: pa.DataType) -> Relation:
    return Relation(Kind.TABLE, tuple(Field(f"K{i}", kind) for i, kind in enumerate(kinds)), (Field("V", ty.INT),))


def changes(*keys: object) -> list[tuple]:
    """The n-th change is to n."""
    return [(10 * n, key, (n,)) for n, key in enumerate(keys)]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=30))
def test_merging_keeps_the_last_change_of_each_key(drawn: Sequence[tuple[int, bool]]) -> None:
    entries = [(n, (key,), None if deleted else (n,)) for n, (key, deleted) in enumerate(drawn)]
    left = merge_changes(Results(entries), table(ty.INT)).entries
    assert {entry[1]: entry for entry in left} == {entry[1]: entry for entry in entries}
    assert left == sorted(left)
    assert len(left) == len({key for key, _ in drawn})


def test_merging_keeps_the_tombstone_of_a_new_key() -> None:
    came, went = (1, (1,), (5,)), (2, (1,), None)
    assert merge_changes(Results([came, went]), table(ty.INT)).entries == [went]


def test_windows_of_a_key_are_merged_separately() -> None:
    entries = changes(("a", (0, 10)), ("a", (10, 20)), ("a", (0, 10)))
    assert merge_changes(Results(entries), table(ty.STRING)).entries == entries[1:]


@pytest.mark.parametrize(
    ("kind", "keys", "left"),
    [
        (ty.DOUBLE, [(0.0,), (-0.0,), (0.0,)], [1, 2]),
        (ty.array(ty.INT), [([1],), ([2],), ([1],)], [1, 2]),
        (ty.INT, [None, (1,), None, (1,)], [0, 2, 3]),
        (ty.DOUBLE, [None, (1.0,), None, (1.0,)], [0, 2, 3]),
    ],
    ids=["zeros differ", "lists", "no key", "no key among others"],
)
def test_distinct_keys_are_not_merged(kind: pa.DataType, keys: list, left: list[int]) -> None:
    entries = changes(*keys)
    assert merge_changes(Results(entries), table(kind)).entries == [entries[place] for place in left]


def test_each_entry_keeps_the_headers_of_its_input_record() -> None:
    results = Results()
    results.add(changes((1,)), ())
    results.add([(5, (1,), (7,)), (5, (2,), (8,))], (("from", b"b"),))
    results.add([(6, (2,), (9,))], ())
    left = merge_changes(results, table(ty.INT))
    assert [(entry[1], headers) for entry, headers in zip(left.entries, left.headers or [], strict=True)] == [
        ((1,), (("from", b"b"),)),
        ((2,), ()),
    ]


@pytest.mark.parametrize(
    ("statement", "can"),
    [
        ("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id;", True),
        ("CREATE TABLE o AS SELECT * FROM t;", True),
        ("CREATE STREAM o AS SELECT * FROM s;", False),
        ("CREATE TABLE o AS SELECT id, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id EMIT FINAL;", False),
        ("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id EMIT CHANGES EVERY 1 MINUTE DISCARDING;", False),
    ],
    ids=["aggregate", "table", "stream", "final", "trigger"],
)
def test_which_queries_merge_changes(statement: str, can: bool) -> None:
    assert can_merge_changes(planned(statement)) is can
