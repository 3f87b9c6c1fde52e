"""Stream with stream natively on Kafka beside the chain: the rows of each cut in order of their times, both topics
together, one chain over all cuts. Every piece is run twice, as if the driver had died between its commit and Spark's.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from headrace.contracts import Append, TopicSpec, dead_letter_topic
from headrace.engine.io.kafka_source import CutJournal
from headrace.engine.native.compiler import compile_native_query
from headrace.engine.planning.mode import choose_execution_on
from headrace.log.kafka.log import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.plan.chain.records import RawRecord
from headrace.record import Record
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.conftest import drain, forget_last_commit
from tests.spark.native_runner import in_memory, planned

pytestmark = pytest.mark.kafka

STREAMS = (
    "CREATE STREAM a (id INT KEY, x BIGINT, u STRING) WITH (kafka_topic='{0}-a', format='JSON', partitions=2);"
    "CREATE STREAM b (id INT KEY, y BIGINT, w STRING) WITH (kafka_topic='{0}-b', format='JSON', partitions=2);"
)
QUERIES = {
    "inner": "CREATE STREAM o WITH (kafka_topic='{0}-out') AS SELECT a.id, x, y FROM a JOIN b"
    " WITHIN 4 SECONDS GRACE PERIOD 1 SECOND ON a.id = b.id;",
    "rekeyed": "CREATE STREAM o WITH (kafka_topic='{0}-out') AS SELECT * FROM a JOIN b"
    " WITHIN 3 SECONDS GRACE PERIOD 30 SECONDS ON a.u = b.w WHERE x > 2;",
}


@pytest.fixture
def kafka(kafka_settings: Settings, tmp_path: Path) -> Iterator[KafkaLog]:
    with KafkaLog(kafka_settings.replace(storage_data=tmp_path / "data", query_execution_mode="native")) as opened:
        yield opened


def records(dice: random.Random, start: int, count: int, value: str, text: str) -> list[Record]:
    """Some are late, some cannot be read, some have no key or no value, and then lie far ahead in time."""
    made = []
    for n in range(start, start + count):
        time = 100_000 + n * 500 - (dice.choice((2_000, 8_000, 60_000)) if dice.random() < 0.25 else 0)
        row = {value: dice.randrange(9), text: f"t{dice.randrange(4)}"}
        key, payload = b"%d" % dice.randrange(4), orjson.dumps(row)
        odd = [(None, None), (key, None), (key, b"no json")]
        ahead = dice.random() < 0.1
        key, payload = dice.choice(odd) if ahead else (key, payload)
        made.append(Record(payload, key, occurred_at=time + 600_000 * ahead))
    return made


def in_order(log: KafkaLog, topics: list[str], cuts: CutJournal) -> list[tuple[str, RawRecord]]:
    """What was read, as the cuts say."""
    found = [(topic, record) for topic in topics for record in memory_and_spark.stored(log, topic)]
    rows: list[tuple[str, RawRecord]] = []
    for cut in cuts.read():
        inside = [
            (r.timestamp, t, r.partition, r.offset, r)
            for t, r in found
            if cut.start[t][str(r.partition)] <= r.offset < cut.end[t][str(r.partition)]
        ]
        rows += [
            (t, RawRecord(r.key, r.value, r.timestamp)) for _, t, _, _, r in sorted(inside, key=lambda one: one[:4])
        ]
    return rows


@pytest.mark.parametrize("kind", QUERIES)
def test_pairs_are_those_of_the_chain(
    spark: SparkSession, kafka: KafkaLog, name: str, tmp_path: Path, kind: str
) -> None:
    topics = [f"{name}-a", f"{name}-b"]
    for topic in (*topics, f"{name}-out", dead_letter_topic(f"{name}-out")):
        kafka.create_topic(topic, TopicSpec(partitions=2))
    query, folder, dice = planned((STREAMS + QUERIES[kind]).format(name)), tmp_path / "q", random.Random(kind)
    assert choose_execution_on(kafka, query, kafka.settings).way == "native"
    for piece in range(3):
        for topic, columns in zip(topics, (("X", "U"), ("Y", "W")), strict=True):
            kafka.append([Append(topic, from_records(records(dice, piece * 40, 40, *columns)))])
        for _ in range(2):
            flow = compile_native_query(spark, kafka, query, kafka.settings, folder, name)
            drain(flow.rows, flow.write, folder / "spark", flow.mode)
            forget_last_commit(folder / "spark")
    wanted = in_memory(query, in_order(kafka, topics, CutJournal(kafka, name, folder / "spark")))
    got = [(r.key, r.value, r.timestamp) for r in memory_and_spark.stored(kafka, f"{name}-out")]
    assert memory_and_spark.by_key(got) == memory_and_spark.by_key(wanted.written)
    letters = memory_and_spark.stored(kafka, dead_letter_topic(f"{name}-out"))
    assert Counter((r.record.header("code") or b"").decode() for r in letters) == wanted.dead
    assert len(got) > 10
    assert wanted.dead["late-record"] > 3
