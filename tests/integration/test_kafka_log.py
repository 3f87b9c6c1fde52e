"""The Kafka log against a real broker: what is particular to Kafka. What holds for every log is in tests/contract."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_INVALID, Producer
from confluent_kafka.admin import AdminClient

from headrace.contracts import Ack, Append, Batch, OffsetReset, Subscription, TopicPartition, TopicSpec
from headrace.errors import (
    BadTopicName,
    BadTopicOption,
    BrokerUnreachable,
    GroupFenced,
    GroupNotEmpty,
    IncompatibleSchema,
    NotOnThisLog,
    OffsetLost,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicExists,
    UnknownTopic,
    WrongType,
)
from headrace.log.kafka import KafkaLog
from headrace.log.kafka.consumer import KafkaConsumer
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.schema import Schema
from headrace.settings import Settings, Size

pytestmark = pytest.mark.kafka

CLICKS = Schema.parse("id bigint key, price decimal(10,2), data bytes, tags array<string>, at timestamp")


def records(*values: bytes, key: bytes | None = None) -> pa.RecordBatch:
    return from_records([Record(value, key) for value in values])


def values_of(log: KafkaLog, topic: str, partition: int = 0) -> list[bytes]:
    bounds = log.bounds(topic)[partition]
    offset, values = bounds.start, []
    while offset < bounds.end:
        batch = log.read(topic, partition, offset, max_records=3)
        values += batch.rows.column("value").to_pylist()
        offset = batch.next_offset
    return values


def polled(consumer: KafkaConsumer, enough: Callable[[list[Batch]], bool]) -> list[Batch]:
    """Poll until it is enough; the test's time limit ends it otherwise."""
    batches: list[Batch] = []
    while not enough(batches):
        batches += consumer.poll(timedelta(milliseconds=200))
    return batches


def rows_in(batches: list[Batch]) -> int:
    return sum(len(batch) for batch in batches)


# -- topics -----------------------------------------------------------------------------------------------------------


def test_another_client_sees_the_created_kafka_topic_with_its_options(
    log: KafkaLog, kafka_settings: Settings, name: str
) -> None:
    spec = TopicSpec(
        partitions=2,
        schema=CLICKS,
        partitioner="round-robin",
        retention_time=timedelta(days=2),
        retention_bytes=Size(10 << 20),
        compact=True,
        tombstone_time=timedelta(hours=1),
        max_record_bytes=Size(5000),
    )
    log.create_topic(name, spec)
    with KafkaLog(kafka_settings) as other:
        assert other.topic(name).spec == spec
        assert spec in [topic.spec for topic in other.topics() if topic.name == name]


def test_foreign_topics_are_raw_and_internal_topics_hidden(log: KafkaLog, name: str) -> None:
    log._topics.make(name, 3, 1, {"retention.ms": 60_000})
    found = log.topic(name)
    assert (found.schema.is_raw, found.partitions) == (True, 3)
    assert found.spec.retention_time == timedelta(minutes=1)
    log.writer(name).close()
    assert not [topic.name for topic in log.topics() if topic.name.startswith("__")]
    with pytest.raises(UnknownTopic):
        log.topic("__consumer_offsets")


def test_a_topic_is_altered_as_on_the_embedded_log(log: KafkaLog, name: str) -> None:
    log.create_topic(name, TopicSpec(schema=Schema.parse("id int key")))
    wider = Schema.parse("id bigint key, name string default 'x'")
    topic = log.alter_topic(name, partitions=3, schema=wider, retention_time=timedelta(days=1))
    assert (topic.partitions, topic.schema, topic.spec.retention_time) == (3, wider, timedelta(days=1))
    with pytest.raises(BadTopicOption):
        log.alter_topic(name, partitions=1)
    with pytest.raises(IncompatibleSchema):
        log.alter_topic(name, schema=Schema.parse("id string key"))
    assert log.topic(name).schema == wider
    log.delete_topic(name)
    with pytest.raises(UnknownTopic):
        log.topic(name)
    assert log.create_topic(name).schema.is_raw


REFUSED = {
    "archive": (TopicSpec(archive=True, retention_time=timedelta(1)), NotOnThisLog),
    "quota": (TopicSpec(quota_bytes=Size(1)), NotOnThisLog),
    "more replicas than brokers": (TopicSpec(replication=5), BadTopicOption),
    "no partitions": (TopicSpec(partitions=0), BadTopicOption),
}


@pytest.mark.parametrize(("spec", "error"), REFUSED.values(), ids=REFUSED)
def test_options_that_kafka_lacks_are_refused(
    log: KafkaLog, name: str, spec: TopicSpec, error: type[Exception]
) -> None:
    with pytest.raises(error):
        log.create_topic(name, spec)
    with pytest.raises(UnknownTopic):
        log.topic(name)


def test_existing_and_invalid_topic_names_are_refused(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    with pytest.raises(TopicExists):
        log.create_topic(name, TopicSpec(schema=CLICKS))
    assert log.topic(name).schema.is_raw
    with pytest.raises(BadTopicName):
        log.create_topic("a b")


# -- rows -------------------------------------------------------------------------------------------------------------


def test_typed_rows_are_read_back(log: KafkaLog, name: str) -> None:
    log.create_topic(name, TopicSpec(schema=CLICKS))
    rows = pa.RecordBatch.from_pydict(
        {
            "id": pa.array([1, 2, 1]),
            "price": pa.array([Decimal("1.50"), None, None], pa.decimal128(10, 2)),
            "data": pa.array([b"\xff\x00", b"", None], pa.binary()),
            "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
            "at": pa.array([1_700_000_000_123, None, None], pa.timestamp("ms", "UTC")),
            "$timestamp": [5, 0, -7],
            "$deleted": [False, None, True],
            "$sent_at": [None, 3, None],
        }
    )
    log.append([Append(name, rows)])
    read = log.read(name, 0, 0).rows
    for column in CLICKS.names:
        assert read.column(column).equals(rows.column(column)), column
    assert read.column("$timestamp").to_pylist() == [5, 0, -7]
    assert read.column("$deleted").to_pylist() == [None, None, True]
    assert read.column("$sent_at").to_pylist() == [None, 3, None]
    assert read.column("$offset").to_pylist() == [0, 1, 2]
    assert read.column("$sequence").null_count == 3


def test_an_invalid_row_refuses_the_whole_append(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    log.create_topic(f"{name}-small", TopicSpec(max_record_bytes=Size(100)))
    for bad, error in (
        (Append(f"{name}-small", records(b"x" * 200)), RecordTooLarge),
        (Append(name, pa.RecordBatch.from_pydict({"value": [b"a"], "colour": ["red"]})), WrongType),
        (Append(f"{name}-nowhere", records(b"x")), UnknownTopic),
    ):
        with pytest.raises(error):
            log.append([Append(name, records(b"a", b"b")), bad])
    assert values_of(log, name) == []


@pytest.mark.parametrize("ack", Ack)
def test_every_level_of_acknowledgement_delivers(log: KafkaLog, kafka_settings: Settings, name: str, ack: Ack) -> None:
    log.create_topic(name)
    log.append([Append(name, records(b"one"))], ack=ack)
    log.append([Append(name, records(b"two", b"three"))], ack=ack)
    producer = log.producer(ack=ack)
    places = [producer.send(name, Record(b"four")), producer.send(name, Record(b"five"), 0)]
    producer.close()
    assert [place.result().count for place in places] == [1, 1]
    log.close()
    with KafkaLog(kafka_settings) as other:
        assert values_of(other, name) == [b"one", b"two", b"three", b"four", b"five"]


def test_reads_skip_transaction_markers(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    for n in range(3):
        log.append([Append(name, records(b"%d" % n, b"%d" % n))])
    assert values_of(log, name) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    end = log.bounds(name)[0].end
    only_a_mark = log.read(name, 0, end - 1)
    assert (len(only_a_mark), only_a_mark.next_offset) == (0, end)
    at_the_end = log.read(name, 0, end)
    assert (len(at_the_end), at_the_end.next_offset) == (0, end)
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(name, 0, end + 1)
    assert f"0 to {end}" in caught.value.what


def test_rows_of_an_open_transaction_are_invisible(
    log: KafkaLog, cluster: object, kafka_settings: Settings, name: str
) -> None:
    log.create_topic(name)
    log.append([Append(name, records(b"before"))])
    foreign = Producer({"bootstrap.servers": kafka_settings.kafka.bootstrap_servers, "transactional.id": name})
    foreign.init_transactions()
    foreign.begin_transaction()
    foreign.produce(name, b"open")
    foreign.flush()
    assert values_of(log, name) == [b"before"]
    foreign.abort_transaction()
    log.append([Append(name, records(b"after"))])
    assert values_of(log, name) == [b"before", b"after"]


def test_a_topic_is_truncated_and_searched_by_time(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    rows = pa.RecordBatch.from_pydict({"value": [b"a", b"b", b"c"], "$timestamp": [100, 200, 300]})
    log.append([Append(name, rows)])
    assert [log.offset_at(name, 0, at) for at in (0, 100, 150, 300)] == [0, 0, 1, 2]
    assert log.offset_at(name, 0, 301) == log.bounds(name)[0].end
    log.truncate(name, 0, 2)
    assert log.bounds(name)[0].start == 2
    assert values_of(log, name) == [b"c"]
    with pytest.raises(OffsetOutOfRange):
        log.read(name, 0, 1)


def test_a_compacted_topic_keeps_the_latest_row_of_each_key(log: KafkaLog, name: str) -> None:
    log.create_topic(name, TopicSpec(compact=True))
    for n in range(3):
        log.append([Append(name, records(b"%d" % n, key=b"k"))])
    assert values_of(log, name)[-1] == b"2"


# -- dead letters -----------------------------------------------------------------------------------------------------


def test_a_record_that_does_not_match_becomes_a_dead_letter_and_reading_continues(log: KafkaLog, name: str) -> None:
    log.create_topic(name, TopicSpec(schema=Schema.parse("id bigint key, name string")))
    foreign = Producer({"bootstrap.servers": log.settings.kafka.bootstrap_servers})
    for value in (b'{"id": 1, "name": "a"}', b"not JSON", b'{"id": 2, "name": "b"}', b'{"id": "x"}'):
        foreign.produce(name, value, b"key", headers=[("h", b"1")])
    assert foreign.flush(10) == 0
    for _ in range(2):  # reading again buries nothing again
        assert log.read(name, 0, 0).rows.column("name").to_pylist() == ["a", "b"]
    consumer = log.consumer(name, Subscription((name,)))
    assert rows_in(polled(consumer, lambda batches: rows_in(batches) >= 2)) == 2
    consumer.close()
    assert log.dead_letters[name] == 2
    letters = list(log.read(f"{name}.dead", 0, 0).records())
    assert [letter.value for letter in letters] == [b"not JSON", b'{"id": "x"}']
    assert [letter.key for letter in letters] == [f"{name}/0/1".encode(), f"{name}/0/3".encode()]
    letter = letters[1].record
    assert (letter.header("code"), letter.header("h"), letter.header("key")) == (b"bad-record", b"1", b"key")
    assert letter.header("origin") == f"{name}/0/3".encode()
    assert b"id" in (letter.header("reason") or b"")


def test_a_schema_extended_by_another_client_causes_no_dead_letters(
    log: KafkaLog, kafka_settings: Settings, name: str
) -> None:
    log.create_topic(name, TopicSpec(schema=Schema.parse("id bigint key")))
    assert len(log.read(name, 0, 0)) == 0  # from now on it remembers the schema
    with KafkaLog(kafka_settings) as other:
        other.alter_topic(name, schema=Schema.parse("id bigint key, name string"))
        other.append([Append(name, pa.RecordBatch.from_pydict({"id": [1], "name": ["a"]}))])
    assert log.read(name, 0, 0).rows.column("name").to_pylist() == ["a"]
    assert log.dead_letters[name] == 0


# -- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_resumes_at_its_committed_offset(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    here = TopicPartition(name, 0)
    log.append([Append(name, records(b"a", b"b", b"c"))])
    first = log.consumer(name, Subscription((name,)), client="me")
    polled(first, lambda batches: rows_in(batches) == 3)
    assert first.lag() == {here: 0}
    first.commit({here: 1})
    info = log.group(name)
    assert (info.offsets, info.lag) == ({here: 1}, {here: 2})
    assert [(member.client, member.assignment) for member in info.members] == [("me", (here,))]
    with pytest.raises(GroupNotEmpty):
        log.reset_group(name, {here: 0})
    first.close()
    second = log.consumer(name, Subscription((name,)))
    batches = polled(second, lambda batches: rows_in(batches) == 2)
    assert [row for batch in batches for row in batch.rows.column("value").to_pylist()] == [b"b", b"c"]
    second.commit()
    assert log.group(name).lag == {here: 0}
    second.close()
    log.reset_group(name, {here: 0})
    assert log.group(name).offsets == {here: 0}
    assert name in log.groups()
    log.delete_group(name)
    assert name not in log.groups()


def test_members_share_partitions_and_filter_rows(log: KafkaLog, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2, schema=Schema.parse("id bigint key, size int")))
    wanted = Subscription((name,), where=lambda batch: pa.compute.greater(batch.rows.column("size"), 10))
    members = [log.consumer(name, wanted), log.consumer(name, wanted)]
    while not all(len(member.assignment) == 1 for member in members):
        for member in members:
            member.poll(timedelta(milliseconds=50))
    (others,) = members[1].assignment
    with pytest.raises(GroupFenced):
        members[0].commit({others: 0})
    log.append([Append(name, pa.RecordBatch.from_pydict({"id": list(range(20)), "size": list(range(20))}))])
    sizes: list[int] = []
    ends = {TopicPartition(name, p): bounds.end for p, bounds in log.bounds(name).items()}
    while any(member.position(here) < ends[here] for member in members for here in member.assignment):
        for member in members:
            for batch in member.poll(timedelta(milliseconds=50)):
                sizes += batch.rows.column("size").to_pylist()
    assert sorted(sizes) == list(range(11, 20))
    for member in members:
        member.commit()
        member.close()
    assert log.group(name).offsets == ends


def test_a_pattern_matches_topics_created_later(log: KafkaLog, name: str) -> None:
    consumer = log.consumer(name, Subscription(pattern=rf"{name}-\d"))
    assert consumer.poll(timedelta(0)) == []
    for n in range(2):
        log.create_topic(f"{name}-{n}")
        log.append([Append(f"{name}-{n}", records(b"a"))])
        (batch,) = polled(consumer, bool)
        assert batch.topic == f"{name}-{n}"
        consumer.commit()
    assert {here.topic for here in consumer.assignment} == {f"{name}-0", f"{name}-1"}
    consumer.close()


def test_lost_rows_are_an_error_until_the_caller_seeks(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    here = TopicPartition(name, 0)
    for value in (b"a", b"b", b"c"):
        log.append([Append(name, records(value))])
    log.reset_group(name, {here: 0})
    log.truncate(name, 0, 2)
    consumer = log.consumer(name, Subscription((name,)))
    for _ in range(2):
        with pytest.raises(OffsetLost) as caught:
            polled(consumer, bool)
        assert "rows 0 to 1 were removed" in caught.value.what
    consumer.seek(here, 2)
    assert rows_in(polled(consumer, bool)) == 1
    consumer.close()


@pytest.mark.parametrize(
    ("lost", "rows"), [(OffsetReset.EARLIEST, [b"b", b"new"]), (OffsetReset.LATEST, [b"new"])], ids=str
)
def test_lost_rows_can_be_skipped(log: KafkaLog, name: str, lost: OffsetReset, rows: list[bytes]) -> None:
    log.create_topic(name)
    for value in (b"a", b"b"):
        log.append([Append(name, records(value))])
    log.reset_group(name, {TopicPartition(name, 0): 0})
    log.truncate(name, 0, 1)
    consumer = log.consumer(name, Subscription((name,)), lost=lost)
    while not consumer.assignment:
        assert consumer.poll(timedelta(0)) == []
    log.append([Append(name, records(b"new"))])
    batches = polled(consumer, lambda batches: rows_in(batches) == len(rows))
    assert [row for batch in batches for row in batch.rows.column("value").to_pylist()] == rows
    consumer.close()


def test_a_consumer_resumes_after_lost_rows_with_a_seek(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    consumer = log.consumer(name, Subscription((name,)))
    for value in (b"a", b"b", b"c"):
        log.append([Append(name, records(value))])
    polled(consumer, lambda batches: rows_in(batches) == 3)
    consumer.seek(TopicPartition(name, 0), 0)
    log.truncate(name, 0, 2)
    consumer.seek(TopicPartition(name, 0), 2)
    assert rows_in(polled(consumer, bool)) == 1
    consumer.close()


# -- no broker --------------------------------------------------------------------------------------------------------


def test_an_unreachable_broker_is_named_by_its_address() -> None:
    with (
        KafkaLog(Settings.of(storage_log="kafka", kafka_bootstrap_servers="127.0.0.1:1")) as log,
        pytest.raises(BrokerUnreachable) as caught,
    ):
        log.topics()
    assert "127.0.0.1:1" in caught.value.what
    assert "headrace kafka up" in (caught.value.fix or "")


def test_offsets_unknown_to_a_broker_are_requested_again(
    log: KafkaLog, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the library answers for a moment after a broker has begun: no error, and an offset that is none."""
    log.create_topic(name)
    log.append([Append(name, records(b"a"))])
    real, asked = AdminClient.list_offsets, list[object]()

    def not_yet(admin: AdminClient, wanted: Any, **more: Any) -> Any:
        asked.append(wanted)
        return real(admin, wanted, **more) if len(asked) > 2 else {place: _answered(OFFSET_INVALID) for place in wanted}

    monkeypatch.setattr(AdminClient, "list_offsets", not_yet)
    assert values_of(log, name) == [b"a"]
    assert len(asked) > 2


def _answered(offset: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(SimpleNamespace(offset=offset))
    return future
