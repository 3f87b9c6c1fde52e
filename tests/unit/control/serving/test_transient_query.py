"""Push queries over a real log give the result of the chain over all records in order."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from headrace.contracts import Append, TopicSpec
from headrace.control.serving import ordered_reader
from headrace.control.serving.transient_query import TransientQuery
from headrace.lang.ksql.grammar.parser import parse_one
from headrace.lang.ksql.statements.planner import Planner
from headrace.log.embedded import EmbeddedLog
from headrace.plan.actions import TransientSelect
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query
from headrace.record import Record
from headrace.schema import Schema

SALES = "CREATE STREAM sales (shop STRING KEY, n INT) WITH (kafka_topic='sales', format='JSON', partitions=2);"
SHOPS = "CREATE TABLE shops (shop STRING PRIMARY KEY, city STRING) WITH (kafka_topic='shops', format='JSON');"
JOINED = "SELECT s.shop AS shop, n, city FROM sales s LEFT JOIN shops t ON s.shop = t.shop EMIT CHANGES;"
SUMS = "SELECT shop, SUM(n) AS total FROM sales GROUP BY shop EMIT CHANGES;"


def asked(text: str) -> Query:
    planner = Planner(Catalog())
    *_, ask = [planner.plan(parse_one(statement), statement) for statement in (SALES, SHOPS, text)]
    assert isinstance(ask, TransientSelect)
    assert ask.push
    return ask.query


def record(shop: str, **row: Any) -> Record:
    return Record(json.dumps(row).encode(), json.dumps(shop).encode(), occurred_at=1)


def everything(follower: TransientQuery) -> list[Any]:
    found: list[Any] = []
    while (made := follower.step()) is not None:
        found += made
    return [entry[:3] for entry in found]


@pytest.mark.parametrize("from_beginning", [True, False])
def test_a_push_query_reads_from_the_beginning_or_from_the_end(log: EmbeddedLog, from_beginning: bool) -> None:
    for topic in ("sales", "shops"):
        log.create_topic(topic, TopicSpec(partitions=2 if topic == "sales" else 1))
    log.append([Append("sales", [record("a", N=1)])])
    follower = TransientQuery(log, asked(SUMS), from_beginning=from_beginning)
    log.append([Append("sales", [record("a", N=10), record("a", N="no number"), record("a", N=100)])])
    totals = [row[0] for _, _, row in everything(follower)]
    assert totals == ([1, 11, 111] if from_beginning else [10, 110])
    assert follower.step() is None


def test_a_push_query_reads_a_topic_with_a_schema(log: EmbeddedLog) -> None:
    log.create_topic("sales", TopicSpec(partitions=2, schema=Schema.parse("shop string key, n int")))
    follower = TransientQuery(log, asked(SUMS), from_beginning=False)
    rows = Schema.parse("shop string key, n int").arrow
    log.append([Append("sales", pa.RecordBatch.from_pylist([{"shop": "a", "n": 5}, {"shop": "a", "n": 6}], rows))])
    assert [(key, row) for _, key, row in everything(follower)] == [(("a",), (5,)), (("a",), (11,))]


@tried(max_examples=40, deadline=None)
@given(
    appends=st.lists(
        st.lists(st.tuples(st.sampled_from(["sales", "shops"]), st.sampled_from("abc"), st.integers(0, 9)), max_size=6),
        max_size=12,
    ),
    most=st.integers(1, 5),
)
def test_records_of_several_topics_are_read_in_total_order(
    appends: list[list[tuple[str, str, int]]], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However few are looked at together, and whenever one looks."""
    with EmbeddedLog(tmp_path_factory.mktemp("log")) as log, pytest.MonkeyPatch.context() as patch:
        for topic in ("sales", "shops"):
            log.create_topic(topic, TopicSpec(partitions=2 if topic == "sales" else 1))
        follower = TransientQuery(log, asked(JOINED), from_beginning=True)
        patch.setattr(ordered_reader, "MAX_RECORDS", most)
        found: list[Any] = []
        for rows in appends:
            for topic, shop, n in rows:  # one by one: an append of several topics has no order among them
                row = {"N": n} if topic == "sales" else {"CITY": f"city {n}"}
                log.append([Append(topic, [record(shop, **row)])])
            if len(rows) % 2:
                found += everything(follower)
        found += everything(follower)
        assert [(key[0], *row) for _, key, row in found] == _joined(appends)


def _joined(appends: list[list[tuple[str, str, int]]]) -> list[tuple[str, int, str | None]]:
    cities: dict[str, str] = {}
    made: list[tuple[str, int, str | None]] = []
    for topic, shop, n in (row for rows in appends for row in rows):
        if topic == "shops":
            cities[shop] = f"city {n}"
        else:
            made.append((shop, n, cities.get(shop)))
    return made
