"""Producers send single records in batches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from headrace.contracts import Ack, Log, TopicSpec
from headrace.errors import Closed, PartitionConflict, RecordTooLarge, UnknownPartition, UnknownTopic
from headrace.record import Record
from headrace.settings import Size
from tests.contract.rows_and_records import records, values


@pytest.mark.parametrize("linger", [timedelta(0), timedelta(milliseconds=5)])
def test_flushed_records_are_readable_in_order(log: Log, name: str, linger: timedelta) -> None:
    log.create_topic(name)
    producer = log.producer(linger=linger)
    places = [producer.send(name, Record(b"%d" % i)) for i in range(200)]
    producer.flush()
    assert values(log, name) == [b"%d" % i for i in range(200)]
    assert [p.result().offset for p in places] == [r.offset for r in records(log, name)]
    producer.close()


@pytest.mark.parametrize("ack", list(Ack))
def test_closing_sends_the_remaining_records(log: Log, name: str, ack: Ack) -> None:
    log.create_topic(name)
    producer = log.producer(ack=ack, linger=timedelta(milliseconds=20))
    for i in range(20):
        producer.send(name, Record(b"%d" % i))
    producer.close()
    producer.close()
    if ack is Ack.NONE:
        log.append([])
    assert values(log, name) == [b"%d" % i for i in range(20)]
    with pytest.raises(Closed):
        producer.send(name, Record(b"x"))


def test_threads_share_a_producer(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=3))
    producer = log.producer()

    def send(worker: int) -> list:
        return [producer.send(name, Record(b"%d.%d" % (worker, i), b"k%d" % worker)) for i in range(50)]

    with ThreadPoolExecutor(4) as pool:
        sent = [future for futures in pool.map(send, range(4)) for future in futures]
    producer.flush()
    assert len({(f.result().partition, f.result().offset) for f in sent}) == 200
    found = [v for p in range(3) for v in values(log, name, p)]
    assert sorted(found) == sorted(b"%d.%d" % (w, i) for w in range(4) for i in range(50))
    producer.close()


def test_every_field_of_a_record_is_read_back(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2))
    producer = log.producer()
    given = Record(
        b"v",
        None,
        (("h", b"1"),),
        occurred_at=1_700_000_000_000,
        sent_at=1_700_000_000_500,
        received_at=1_700_000_060_500,
    )
    place = producer.send(name, given, 1).result(30)
    (found,) = records(log, name, 1)
    assert (place.partition, place.offset, place.count) == (1, found.offset, 1)
    assert (found.record, found.timestamp) == (given, 1_700_000_060_000)
    producer.close()


def test_an_invalid_record_is_refused_at_once(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=3, max_record_bytes=Size(1000)))
    producer = log.producer()
    home = producer.send(name, Record(b"x", b"k")).result(30).partition
    for error, topic, record, partition in (
        (UnknownTopic, f"{name}-no", Record(b"x"), None),
        (RecordTooLarge, name, Record(b"x" * 2000), None),
        (RecordTooLarge, name, Record(b"x", headers=(("h", b"x" * 2000),)), None),
        (UnknownPartition, name, Record(b"x"), 3),
        (PartitionConflict, name, Record(b"x", b"k"), (home + 1) % 3),
    ):
        with pytest.raises(error):
            producer.send(topic, record, partition)
    producer.flush()
    producer.close()
    assert sum(len(values(log, name, p)) for p in range(3)) == 1


def test_a_topic_may_be_altered_while_records_are_sent(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=1))
    producer = log.producer()
    sent = []
    for i in range(60):
        sent.append(producer.send(name, Record(b"%d" % i)))
        if i % 20 == 10:
            log.alter_topic(name, max_record_bytes=Size(1000 + i))
    producer.close()
    assert values(log, name) == [b"%d" % i for i in range(60)]
    assert all(f.result().count == 1 for f in sent)
