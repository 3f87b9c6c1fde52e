"""UUID, RANDOM and the current time derive from the record, so that a replay gives the same bytes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.functions.replay_context import ReplayContext, now, random_bytes
from headrace.plan.nodes import Query
from headrace.plan.steps import Context
from headrace.testing.world import World

CLICKS = "CREATE STREAM clicks (id INT KEY, n INT) WITH (kafka_topic='clicks', format='JSON');"
DRAWN = (
    "CREATE STREAM drawn AS SELECT id, n, UUID() AS a, UUID() AS b, RANDOM() AS r, UNIX_TIMESTAMP() AS t FROM clicks;"
)
FINAL = """
CREATE TABLE final AS SELECT id, COUNT(*) AS n, UUID() AS u, RANDOM() AS r FROM clicks
WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY id EMIT FINAL;
"""

Clicks = Sequence[tuple[int, int]]
"""Ids and times."""
clicks = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60_000)), max_size=12)


def planned(statement: str) -> Query:
    world = World()
    world.execute(CLICKS + statement)
    (running,) = world.running.values()
    return running.query


def records(of: Clicks) -> list[RawRecord]:
    return [RawRecord(b"%d" % id_, b'{"N": 1}', time, (), 0, offset) for offset, (id_, time) in enumerate(of)]


def written(statement: str, of: Clicks, cuts: Sequence[int] = (), at: int | None = None) -> list[RawRecord]:
    """With the state handed over from chain to chain at the cuts; at the end time passes."""
    stores: dict[str, dict] = {}
    query, every, out = planned(statement), records(of), list[RawRecord]()
    edges = [0, *sorted(min(cut, len(every)) for cut in cuts), len(every)]
    for start, end in pairwise(edges):
        context = Context(lambda name: stores.setdefault(name, {}), now=lambda: at)
        pipe = Pipeline(query, context)
        out += pipe.feed("clicks", every[start:end])
        if end == len(every):
            out += pipe.tick(1_000_000)
    return out


@given(clicks, st.lists(st.integers(0, 12), max_size=3))
def test_a_record_gives_the_same_values_in_any_batches(of: Clicks, cuts: list[int]) -> None:
    assert written(DRAWN, of, cuts) == written(DRAWN, of)


@given(clicks)
def test_values_of_ticks_are_reproducible(of: Clicks) -> None:
    assert written(FINAL, of) == written(FINAL, of)


def test_no_random_value_is_repeated() -> None:
    of = [(id_, time) for time in range(0, 60_000, 5_000) for id_ in range(4)]
    rows = [orjson.loads(record.value or b"") for record in (*written(DRAWN, of), *written(FINAL, of))]
    ids = [row[name] for row in rows for name in ("A", "B", "U") if name in row]
    assert len(set(ids)) == len(ids) == 2 * len(of) + 24
    assert {uuid.UUID(text).version for text in ids} == {4}
    assert len({row["R"] for row in rows}) == len(rows)
    assert all(0 <= row["R"] < 1 for row in rows)


@pytest.mark.parametrize(("at", "times"), [(None, [7, 9]), (1_000, [1_000, 1_000])], ids=["own", "batch"])
def test_now_is_the_time_of_the_batch_or_of_the_record(at: int | None, times: list[int]) -> None:
    rows = [orjson.loads(record.value or b"") for record in written(DRAWN, [(1, 7), (1, 9)], at=at)]
    assert [row["T"] for row in rows] == times


def test_two_queries_have_different_random_values() -> None:
    both = DRAWN + DRAWN.replace("STREAM drawn", "STREAM other")
    world = World()
    world.execute(CLICKS + both)
    world.produce("clicks", b"1", b'{"N": 1}')
    assert world.topics["DRAWN"][0].value != world.topics["OTHER"][0].value


def test_outside_of_a_query_values_are_random() -> None:
    assert random_bytes() != random_bytes()
    with ReplayContext("q", lambda: None).record("t", 0, 0, 7):
        assert now() == 7
    assert now() > 1_600_000_000_000
