"""Named writers on Kafka: exactly once across crashes and zombies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headrace.contracts import Append, TopicSpec
from headrace.errors import Closed, WriterFenced, WrongType
from headrace.log.kafka import KafkaLog
from headrace.log.kafka.transactions import PreparedPart
from headrace.log.stored_rows import from_records, prepare_rows, split_by_partition
from headrace.record import Record

pytestmark = pytest.mark.kafka


def rows(*values: bytes) -> pa.RecordBatch:
    return from_records([Record(value) for value in values])


def values_of(log: KafkaLog, topic: str) -> list[bytes]:
    """All values of a topic, partition by partition."""
    values: list[bytes] = []
    for partition, (offset, end) in log.bounds(topic).items():
        while offset < end:
            batch = log.read(topic, partition, offset)
            values += batch.rows.column("value").to_pylist()
            offset = batch.next_offset
    return values


def test_a_number_is_written_once(log: KafkaLog, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2, partitioner="round-robin"))
    log.create_topic(f"{name}-other")
    writer = log.writer(name)
    assert writer.last is None
    placed = writer.append(3, [Append(name, rows(b"a", b"b")), Append(f"{name}-other", rows(b"c"))])
    assert sorted((p.topic, p.count) for p in placed or ()) == [(name, 1), (name, 1), (f"{name}-other", 1)]
    assert writer.append(3, [Append(name, rows(b"again"))]) is None
    assert writer.append(2, [Append(name, rows(b"again"))]) is None
    assert writer.append(4, []) == []  # an empty batch counts as well
    assert writer.last == 4
    writer.close()
    with pytest.raises(Closed):
        writer.append(5, [Append(name, rows(b"late"))])
    assert log.writer(name).last == 4
    assert sorted(values_of(log, name)) == [b"a", b"b"]


def test_opening_a_writer_fences_the_previous_one(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    zombie = log.writer(name)
    zombie.append(0, [Append(name, rows(b"a"))])
    owner = log.writer(name)
    assert owner.last == 0
    for _ in range(2):
        with pytest.raises(WriterFenced):
            zombie.append(1, [Append(name, rows(b"zombie"))])
    owner.append(1, [Append(name, rows(b"b"))])
    assert values_of(log, name) == [b"a", b"b"]


def test_an_invalid_row_does_not_change_the_writer(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    writer = log.writer(name)
    with pytest.raises(WrongType):
        writer.append(0, [Append(name, rows(b"a")), Append(name, pa.RecordBatch.from_pydict({"x": [1]}))])
    assert writer.last is None
    assert writer.append(0, [Append(name, rows(b"a"))])
    assert values_of(log, name) == [b"a"]


def test_a_number_is_found_after_the_open_transaction_of_another_writer(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    writer = log.writer(name)
    place = log._marks._place(name)
    neighbour = Producer(
        {"bootstrap.servers": log.settings.kafka.bootstrap_servers, "transactional.id": f"{name}-neighbour"}
    )
    neighbour.init_transactions()
    neighbour.begin_transaction()
    neighbour.produce(place.topic, b"0", b"neighbour", place.partition)
    neighbour.flush()
    writer.append(7, [Append(name, rows(b"a"))])
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(log.writer, name)
        neighbour.abort_transaction()
        again = opening.result()
    assert again.last == 7
    assert again.append(7, [Append(name, rows(b"a"))]) is None


CRASH = """
import sys
from headrace.contracts import Append
from headrace.log.kafka import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings

servers, name = sys.argv[1:]
writer = KafkaLog(Settings.of(storage_log="kafka", kafka_bootstrap_servers=servers)).writer(name)
writer.append(1, [Append(name, from_records([Record(b"one"), Record(b"two")]))])
"""


@pytest.mark.faults
@pytest.mark.parametrize(("point", "last"), [("kafka.produced", 0), ("kafka.committed", 1)])
def test_a_crash_around_the_commit_neither_loses_nor_repeats_rows(
    log: KafkaLog, name: str, tmp_path: Path, point: str, last: int
) -> None:
    log.create_topic(name)
    log.writer(name).append(0, [Append(name, rows(b"zero"))])
    crash = subprocess.run(
        [sys.executable, "-c", CRASH, log.settings.kafka.bootstrap_servers, name],
        env={**os.environ, "HEADRACE_FAULTPOINT": f"{point}:1:{tmp_path / 'mark'}"},
        capture_output=True,
        check=False,
    )
    assert crash.returncode == -signal.SIGKILL, crash.stderr
    writer = log.writer(name)
    assert writer.last == last
    repeated = writer.append(1, [Append(name, rows(b"one", b"two"))])
    assert (repeated is None) == (last == 1)
    writer.append(2, [Append(name, rows(b"three"))])
    assert values_of(log, name) == [b"zero", b"one", b"two", b"three"]


def parts(log: KafkaLog, topic: str, *pieces: pa.RecordBatch) -> list[PreparedPart]:
    known = log.topic(topic)
    ready = [prepare_rows(piece, known, 1_000) for piece in pieces]
    return [
        PreparedPart(known, partition, part)
        for piece in ready
        for partition, part in split_by_partition(piece, known, None)
    ]


def test_many_rows_in_parts_are_one_append(log: KafkaLog, name: str) -> None:
    """More of them than a producer's queue holds."""
    log.create_topic(name, TopicSpec(partitions=2))
    many = [b"%d" % n for n in range(120_000)]
    pieces = [from_records([Record(value, value[-1:]) for value in many[n::3]]) for n in range(3)]
    writer, load = log.writer(name), parts(log, name, *pieces)
    assert writer.append_parts(0, load)
    assert not writer.append_parts(0, load)
    assert values_of(log, name) == [
        v for p in (0, 1) for part in load if part.partition == p for v in part_values(part)
    ]


def part_values(part: PreparedPart) -> list[bytes]:
    return part.rows.column("value").to_pylist()


def test_an_append_interrupted_between_its_parts_is_not_visible(log: KafkaLog, name: str) -> None:
    log.create_topic(name)
    writer, load = log.writer(name), parts(log, name, rows(*[b"a"] * 20_000))

    def broken() -> Iterator[PreparedPart]:
        yield from load
        raise WrongType("no more")

    with pytest.raises(WrongType):
        writer.append_parts(0, broken())
    assert writer.last is None
    assert writer.append_parts(0, parts(log, name, rows(b"b")))
    assert values_of(log, name) == [b"b"]
