"""Spark on Kafka: journalled cuts for input, one transaction per batch for output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headrace.contracts import Append, TopicSpec
from headrace.engine.io.kafka_sink import KafkaSink
from headrace.engine.io.kafka_source import Cut, CutJournal, java_client_options, read_cut, read_stream
from headrace.errors import WriterFenced
from headrace.log.kafka import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.schema import Schema
from headrace.settings import Settings
from tests.spark.conftest import drain, forget_last_commit

pytestmark = pytest.mark.kafka

WORDS = TopicSpec(partitions=2, schema=Schema.parse("id bigint key, word string"))


@pytest.fixture
def kafka(kafka_settings: Settings) -> Iterator[KafkaLog]:
    with KafkaLog(kafka_settings) as opened:
        yield opened


def words(start: int, end: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": np.arange(start, end), "word": [f"w{n}" for n in range(start, end)]})


def ids(log: KafkaLog, topic: str) -> list[int]:
    found: list[int] = []
    for partition, (position, end) in log.bounds(topic).items():
        while position < end:
            batch = log.read(topic, partition, position)
            found += batch.rows.column("id").to_pylist()
            position = batch.next_offset
    return sorted(found)


def copied(spark: SparkSession, log: KafkaLog, name: str) -> DataFrame:
    topics = [log.topic(name), log.topic(f"{name}-other")]
    rows = read_stream(spark, log.settings, topics, max_rows=400)
    return rows.filter(f"`$topic` = '{name}'").selectExpr(
        f"`{name}`.id AS id", f"`{name}`.word AS word", "`$timestamp`"
    )


def make_topics(log: KafkaLog, name: str) -> None:
    log.create_topic(name, WORDS)
    log.create_topic(f"{name}-other")
    log.create_topic(f"{name}-out", WORDS)
    log.append([Append(name, words(0, 1000))])
    log.append([Append(f"{name}-other", from_records([Record(b"x", b"k")]))])


def test_repeated_batches_read_the_same_cut_and_write_exactly_once(
    spark: SparkSession, kafka: KafkaLog, name: str, tmp_path: Path
) -> None:
    make_topics(kafka, name)
    checkpoint = tmp_path / "spark"
    for _ in range(2):
        sink = KafkaSink(kafka, name, [f"{name}-out"], tmp_path)
        drain(copied(spark, kafka, name), sink.write, checkpoint)
        assert ids(kafka, f"{name}-out") == list(range(1000))
        forget_last_commit(checkpoint)
    journal = list(CutJournal(kafka, name, checkpoint).read())
    assert [cut.batch for cut in journal] == list(range(len(journal)))
    assert len(journal) >= 3
    topics = [kafka.topic(name), kafka.topic(f"{name}-other")]
    rows = [row for cut in journal for row in read_cut(spark, kafka.settings, topics, cut).collect()]
    assert sorted(row[name].id for row in rows if row[name]) == list(range(1000))
    assert len(rows) == 1001


def test_a_replaced_driver_commits_nothing(spark: SparkSession, kafka: KafkaLog, name: str, tmp_path: Path) -> None:
    make_topics(kafka, name)
    checkpoint = tmp_path / "spark"
    old = KafkaSink(kafka, name, [f"{name}-out"], tmp_path)
    drain(copied(spark, kafka, name), old.write, checkpoint)
    KafkaSink(kafka, name, [f"{name}-out"], tmp_path)
    last = forget_last_commit(checkpoint)
    (checkpoint / "offsets" / str(last + 1)).write_text((checkpoint / "offsets" / str(last)).read_text())
    rows = spark.createDataFrame([(5000, "zombie")], "id bigint, word string")
    for _ in range(2):
        with pytest.raises(WriterFenced):
            old.write(rows, last + 1)
    assert 5000 not in ids(kafka, f"{name}-out")


def test_a_misfit_becomes_a_dead_letter(spark: SparkSession, kafka: KafkaLog, name: str) -> None:
    kafka.create_topic(name, WORDS)
    kafka.append([Append(name, words(0, 10))])
    stranger = Producer({"bootstrap.servers": kafka.settings.kafka.bootstrap_servers})
    stranger.produce(name, b"no json", b"k", 0)
    stranger.flush()
    topic = kafka.topic(name)
    bounds = kafka.bounds(name)
    cut = Cut(
        0,
        {name: {str(p): b.start for p, b in bounds.items()}},
        {name: {str(p): b.end for p, b in bounds.items()}},
    )
    rows = read_cut(spark, kafka.settings, [topic], cut).collect()
    assert sorted(row.id for row in rows) == list(range(10))
    # Sorting reads twice, so the letter may have been written twice; its key is its origin.
    letters = list(kafka.read(f"{name}.dead", 0, 0).records())
    assert {letter.value for letter in letters} == {b"no json"}
    assert len({letter.key for letter in letters}) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"security.protocol": "SSL", "ssl.ca.location": "ca.pem"}, {"ssl.truststore.type": "PEM"}),
        (
            {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": 'a"b'},
            {"sasl.mechanism": "SCRAM-SHA-512"},
        ),
    ],
)
def test_security_settings_are_translated_for_java(given: dict[str, str], expected: dict[str, str]) -> None:
    java = java_client_options(given)
    assert expected.items() <= java.items()
    assert not {"sasl.password", "ssl.ca.location"} & java.keys()
    if "sasl.password" in given:
        assert r"password=\"a" not in java["sasl.jaas.config"]
        assert 'password="a\\"b"' in java["sasl.jaas.config"]
