"""Reading by offset and by time, bounds, and truncating."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from headrace.clock import ManualClock
from headrace.contracts import SYSTEM_COLUMNS, Append, Log, TopicSpec
from headrace.errors import Closed, OffsetOutOfRange, UnknownPartition, UnknownTopic
from headrace.schema import RAW
from tests.contract.conftest import OpenLog
from tests.contract.rows_and_records import put, raw, records, values

DAY = 86_400_000
NOW = 1_800_000_000_000


def test_a_batch_has_the_columns_of_the_topic_and_of_the_log(log: Log, name: str) -> None:
    log.create_topic(name)
    put(log, name, b"x")
    batch = log.read(name, 0, 0)
    assert batch.rows.schema.names == [*RAW.names, *SYSTEM_COLUMNS]
    assert (batch.topic, batch.partition, len(batch)) == (name, 0, 1)
    assert log.read(name, 0, log.bounds(name)[0].end).rows.schema == batch.rows.schema


def test_reading_resumes_at_the_next_offset(log: Log, name: str) -> None:
    log.create_topic(name)
    for i in range(10):
        put(log, name, b"%d" % i)
    assert values(log, name) == [b"%d" % i for i in range(10)]
    at = records(log, name)[6].offset
    assert log.read(name, 0, at, max_records=2).rows.column("value").to_pylist() == [b"6", b"7"]


def test_prefetched_rows_of_a_recreated_topic_are_discarded(open_log: OpenLog, name: str) -> None:
    log, other = open_log(), open_log()
    topics = [f"{name}-{i}" for i in range(9)]
    for topic in topics:
        log.create_topic(topic)
        for i in range(5):
            put(log, topic, b"%d" % i)
    for topic in topics[:8]:  # as many as a reader on Kafka caches
        assert len(log.read(topic, 0, 0, max_records=2)) == 2
    for topic in topics[:8]:
        other.delete_topic(topic)
        other.create_topic(topic)
        for i in range(3):
            put(other, topic, b"new %d" % i)
    time.sleep(1.5)  # in which the client's fetches behind the new end of the topics fail
    for topic in [topics[8], *topics[:8], topics[8]]:
        found = [record.value for record in log.read(topic, 0, 0).records()]
        assert found == ([b"%d" % i for i in range(5)] if topic == topics[8] else [b"new %d" % i for i in range(3)])


def test_bounds_follow_appends_and_removals(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2))
    assert log.bounds(name) == {0: (0, 0), 1: (0, 0)}
    for i in range(5):
        put(log, name, b"%d" % i, partition=1)
    assert log.bounds(name) == {0: (0, 0), 1: (0, 5)}
    log.truncate(name, 1, 2)
    assert log.bounds(name) == {0: (0, 0), 1: (2, 5)}
    assert values(log, name, 1) == [b"2", b"3", b"4"]
    log.truncate(name, 1, 5)
    assert log.bounds(name)[1] == (5, 5)
    assert values(log, name, 1) == []
    put(log, name, b"new", partition=1)
    assert [(r.offset, r.value) for r in records(log, name, 1)] == [(5, b"new")]


def test_truncating_to_the_start_changes_nothing(log: Log, name: str) -> None:
    log.create_topic(name)
    put(log, name, b"a")
    log.truncate(name, 0, 0)
    assert values(log, name) == [b"a"]


def test_truncating_within_an_append_keeps_its_later_rows(log: Log, name: str) -> None:
    log.create_topic(name)
    put(log, name, b"a", b"b", b"c")
    log.truncate(name, 0, records(log, name)[1].offset)
    assert values(log, name) == [b"b", b"c"]


def test_offsets_are_found_by_time(open_log: OpenLog, name: str) -> None:
    clock = ManualClock(NOW)
    log = open_log(clock)
    log.create_topic(name)
    assert log.offset_at(name, 0, NOW) == 0
    for i in range(6):
        clock.set(NOW + i * DAY)
        put(log, name, b"%d" % i)
    for i in range(6):
        assert log.offset_at(name, 0, NOW + i * DAY) == i
        assert log.offset_at(name, 0, NOW + i * DAY - 1) == i
    assert log.offset_at(name, 0, 0) == 0
    assert log.offset_at(name, 0, NOW + 5 * DAY + 1) == 6
    log.truncate(name, 0, 3)
    assert log.offset_at(name, 0, NOW) == 3


def test_offset_at_finds_the_first_row_among_out_of_order_times(log: Log, name: str) -> None:
    log.create_topic(name)
    times = [NOW + 50, NOW + 10, NOW + 40, NOW + 60, NOW + 20]
    log.append([Append(name, raw(*(b"%d" % i for i in range(5))).append_column("$timestamp", pa.array(times)))])
    found = records(log, name)
    for asked, row in ((NOW, 0), (NOW + 50, 0), (NOW + 51, 3), (NOW + 60, 3)):
        assert log.offset_at(name, 0, asked) == found[row].offset
    assert log.offset_at(name, 0, NOW + 61) == log.bounds(name)[0].end


@pytest.mark.parametrize("offset", [-1, 3, 1 << 40])
def test_offsets_beyond_the_end_are_refused(log: Log, name: str, offset: int) -> None:
    log.create_topic(name)
    for value in (b"a", b"b"):
        put(log, name, value)
    with pytest.raises(OffsetOutOfRange) as raised:
        log.read(name, 0, offset)
    assert raised.value.where == f"{name}/0"
    if offset > 0:
        with pytest.raises(OffsetOutOfRange):
            log.truncate(name, 0, offset)


def test_removed_offsets_are_refused(log: Log, name: str) -> None:
    log.create_topic(name)
    for i in range(4):
        put(log, name, b"%d" % i)
    log.truncate(name, 0, 2)
    with pytest.raises(OffsetOutOfRange):
        log.read(name, 0, 1)


def test_unknown_topics_and_partitions_are_refused(log: Log, name: str) -> None:
    log.create_topic(name)
    for partition in (-1, 1):
        for ask in (log.read, log.offset_at, log.truncate):
            with pytest.raises(UnknownPartition):
                ask(name, partition, 0)
    for ask in (log.read, log.offset_at, log.truncate):
        with pytest.raises(UnknownTopic):
            ask(f"{name}-no", 0, 0)


def test_a_closed_log_refuses_calls(open_log: OpenLog, name: str) -> None:
    log = open_log()
    log.create_topic(name)
    producer = log.producer()
    log.close()
    log.close()
    for ask in (
        log.topics,
        lambda: log.topic(name),
        lambda: log.create_topic(name),
        lambda: log.append([Append(name, raw(b"x"))]),
        lambda: log.append([]),
        lambda: log.read(name, 0, 0),
        lambda: log.bounds(name),
        log.producer,
        lambda: log.writer("w"),
        log.groups,
        lambda: log.group("g"),
        lambda: log.delete_group("g"),
    ):
        with pytest.raises(Closed):
            ask()
    producer.close()
