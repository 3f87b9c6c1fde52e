"""Topics are created, altered, listed and deleted alike on every log."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import BadTopicName, BadTopicOption, IncompatibleSchema, TopicExists, UnknownTopic
from headrace.schema import Schema
from headrace.settings import Size
from tests.contract.conftest import OpenLog
from tests.contract.rows_and_records import columns, put, raw, values

FULL = TopicSpec(
    partitions=3,
    schema=Schema.parse("id bigint key, name string default 'none', price decimal(10,2)"),
    partitioner="round-robin",
    retention_time=timedelta(days=3),
    retention_bytes=Size(100 << 20),
    compact=True,
    tombstone_time=timedelta(hours=2),
    max_record_bytes=Size(5000),
)


def test_another_client_sees_the_created_topic_with_its_options(log: Log, open_log: OpenLog, name: str) -> None:
    created = log.create_topic(name, FULL)
    assert (created.name, created.spec) == (name, FULL)
    assert open_log().topic(name) == created
    assert created in log.topics()


def test_topics_are_listed_by_name_without_internal_ones(log: Log, name: str) -> None:
    for suffix in ("b", "a"):
        log.create_topic(f"{name}.{suffix}")
    log.create_topic(f"__{name}")
    assert [t.name for t in log.topics() if name in t.name] == [f"{name}.a", f"{name}.b"]
    assert log.topic(f"__{name}").partitions == 1


def test_an_existing_topic_is_not_created_again(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    with pytest.raises(TopicExists):
        open_log().create_topic(name)


def test_a_deleted_topic_is_unknown_to_every_client(log: Log, open_log: OpenLog, name: str) -> None:
    other = open_log()
    log.create_topic(name)
    put(log, name, b"x")
    assert values(other, name) == [b"x"]
    log.delete_topic(name)
    for one in (log, other):
        for ask in (one.topic, one.bounds, one.delete_topic):
            with pytest.raises(UnknownTopic):
                ask(name)
        with pytest.raises(UnknownTopic):
            one.append([Append(name, raw(b"y"))])


def test_a_recreated_topic_is_empty(log: Log, name: str) -> None:
    log.create_topic(name)
    put(log, name, b"old")
    log.delete_topic(name)
    log.create_topic(name)
    assert log.bounds(name)[0] == (0, 0)
    put(log, name, b"new")
    assert values(log, name) == [b"new"]


def test_partitions_can_be_added_and_old_rows_stay(log: Log, open_log: OpenLog, name: str) -> None:
    other = open_log()
    log.create_topic(name, TopicSpec(partitioner="round-robin"))
    put(log, name, b"a", b"b")
    assert log.alter_topic(name, partitions=3).partitions == 3
    assert sorted(log.bounds(name)) == [0, 1, 2]
    put(other, name, b"c", partition=2)
    assert (values(log, name), values(log, name, 2)) == ([b"a", b"b"], [b"c"])


def test_options_can_be_altered(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    changed = log.alter_topic(name, retention_time=timedelta(hours=1), max_record_bytes=Size(2000))
    assert open_log().topic(name) == changed
    assert (changed.spec.retention_time, changed.spec.max_record_bytes) == (timedelta(hours=1), 2000)


@pytest.mark.parametrize("bad", ["", "with space", "ümlaut", "a/b", ".", "..", "x" * 250])
def test_invalid_names_are_refused(log: Log, bad: str) -> None:
    with pytest.raises(BadTopicName):
        log.create_topic(bad)


@pytest.mark.parametrize(
    "spec",
    [
        TopicSpec(partitions=0),
        TopicSpec(partitions=10_001),
        TopicSpec(partitioner="nonsense"),
        TopicSpec(partitioner="no_such_module:function"),
        TopicSpec(retention_time=timedelta(0)),
        TopicSpec(retention_bytes=Size(-1)),
        TopicSpec(max_record_bytes=Size(0)),
        TopicSpec(compact=True, schema=Schema.parse("a int")),
        TopicSpec(archive=True),
    ],
    ids=lambda spec: str(next(f for f, v in vars(spec).items() if v != getattr(TopicSpec(), f))),
)
def test_invalid_options_are_refused(log: Log, name: str, spec: TopicSpec) -> None:
    with pytest.raises(BadTopicOption):
        log.create_topic(name, spec)
    with pytest.raises(UnknownTopic):
        log.topic(name)


def test_invalid_changes_are_refused(log: Log, name: str) -> None:
    before = log.create_topic(name, TopicSpec(partitions=2, schema=Schema.parse("id bigint key, a int")))
    for changes in ({"partitions": 1}, {"colour": "red"}, {"replication": 2}, {"retention_time": timedelta(0)}):
        with pytest.raises(BadTopicOption):
            log.alter_topic(name, **changes)
    for text in ("id bigint key", "id bigint key, a string", "id bigint, a int", "key bytes key, value bytes"):
        with pytest.raises(IncompatibleSchema):
            log.alter_topic(name, schema=Schema.parse(text))
    with pytest.raises(UnknownTopic):
        log.alter_topic(f"{name}-no", partitions=2)
    assert log.topic(name) == before


def test_old_rows_are_read_with_the_extended_schema(log: Log, open_log: OpenLog, name: str) -> None:
    import pyarrow as pa

    log.create_topic(name, TopicSpec(schema=Schema.parse("id int key, price float")))
    log.append([Append(name, pa.RecordBatch.from_pydict({"id": [1, 2], "price": [1.5, None]}))])
    log.alter_topic(name, schema=Schema.parse("note string default 'new', id bigint key, price double, flag boolean"))
    other = open_log()
    other.append([Append(name, pa.RecordBatch.from_pydict({"id": [2**40], "note": ["x"], "flag": [True]}))])
    assert columns(log, name, "note", "id", "price", "flag") == [
        ("new", 1, 1.5, None),
        ("new", 2, None, None),
        ("x", 2**40, None, True),
    ]


def test_nested_columns_can_be_added(log: Log, name: str) -> None:
    import pyarrow as pa

    old = Schema.parse("id int key, at struct<x int>, many array<struct<y float>>")
    log.create_topic(name, TopicSpec(schema=old))
    log.append([Append(name, pa.RecordBatch.from_pylist([{"id": 1, "at": {"x": 1}, "many": [{"y": 2.0}]}], old.arrow))])
    log.alter_topic(
        name, schema=Schema.parse("id int key, at struct<x bigint,z string>, many array<struct<y double,w int>>")
    )
    assert columns(log, name, "at", "many") == [({"x": 1, "z": None}, [{"y": 2.0, "w": None}])]


def test_a_column_added_by_another_client_is_read(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name, TopicSpec(schema=Schema.parse("id bigint key")))
    log.append([Append(name, pa.RecordBatch.from_pydict({"id": [1]}))])
    other = open_log()
    assert columns(other, name, "id") == [(1,)]  # it knows the topic now
    log.alter_topic(name, schema=Schema.parse("id bigint key, more string"))
    (place,) = log.append([Append(name, pa.RecordBatch.from_pydict({"id": [2], "more": ["x"]}))])
    (row,) = other.read(name, 0, place.offset).rows.to_pylist()
    assert (row["id"], row["more"]) == (2, "x")


def test_an_unknown_topic_suggests_the_nearest_one(log: Log, name: str) -> None:
    log.create_topic(f"{name}-orders")
    log.create_topic(f"__{name}-ordres")
    for ask in (log.topic, log.bounds, log.delete_topic):
        with pytest.raises(UnknownTopic) as refused:
            ask(f"{name}-ordres")
        assert refused.value.fix == f'did you mean "{name}-orders"?'  # and no internal topic
