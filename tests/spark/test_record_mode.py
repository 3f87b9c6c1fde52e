"""Record mode: plans as streaming queries in small batches, stopped in between, compared with memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka import KafkaLog
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.sample_plans import SAMPLE_PLANS

_CHOSEN = ("select", "count", "tumbling", "enrich", "distinct-on", "distinct-windows")


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLE_PLANS if sample.name in _CHOSEN], ids=lambda sample: sample.name
)
def test_a_program_writes_the_records_of_memory(sample, spark: SparkSession, tmp_path: Path) -> None:
    half = len(sample.inputs) // 2
    pieces = [sample.inputs[:half], sample.inputs[half:]]
    given = memory_and_spark.settings(tmp_path)
    with EmbeddedLog(given.storage.data, given) as log:
        found = memory_and_spark.on_spark(sample.statements, pieces, log, given)
    assert _by_key(found) == _by_key(memory_and_spark.in_memory(sample.statements, sample.inputs))


def _by_key(topics: dict[str, list[memory_and_spark.Output]]) -> dict[str, dict]:
    return {topic: memory_and_spark.by_key(records) for topic, records in topics.items()}


_ON_KAFKA = """
CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='{name}.clicks', format='JSON', partitions=2);
CREATE TABLE users (id INT PRIMARY KEY, who STRING) WITH (kafka_topic='{name}.users', format='JSON', partitions=2);
CREATE STREAM paths WITH (kafka_topic='{name}.paths') AS SELECT id, UCASE(page) AS page FROM clicks;
CREATE TABLE counts WITH (kafka_topic='{name}.counts') AS SELECT page, COUNT(*) AS n FROM paths GROUP BY page;
CREATE STREAM who WITH (kafka_topic='{name}.who') AS
  SELECT clicks.id, page, who FROM clicks LEFT JOIN users ON clicks.id = users.id;
CREATE STREAM once WITH (kafka_topic='{name}.once') AS SELECT DISTINCT id, page FROM clicks;
CREATE STREAM often WITH (kafka_topic='{name}.often') AS
  SELECT DISTINCT ON (page) * FROM clicks WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 1 SECOND);
"""


@pytest.mark.kafka
def test_a_program_on_kafka_writes_the_records_of_memory(
    spark: SparkSession, kafka_settings: Settings, name: str, tmp_path: Path
) -> None:
    statements = _ON_KAFKA.format(name=name)
    users = [(f"{name}.users", str(n % 4), f'{{"WHO": "u{n}"}}', n + 1) for n in range(8)]
    clicks = [(f"{name}.clicks", str(n % 5), f'{{"PAGE": "/{n % 3}"}}', 100 + n) for n in range(40)]
    pieces = [users, clicks[:15], clicks[15:]]
    given = memory_and_spark.settings(
        tmp_path, storage_log="kafka", kafka_bootstrap_servers=kafka_settings.kafka.bootstrap_servers
    )
    with KafkaLog(given) as log:
        found = memory_and_spark.on_spark(statements, pieces, log, given)
    wanted, counts = memory_and_spark.in_memory(statements, users + clicks), f"{name}.counts"
    assert _untimed(found.pop(counts)) == _untimed(wanted.pop(counts))
    assert _by_key(found) == _by_key(wanted)


def _untimed(records: list[memory_and_spark.Output]) -> dict:
    """Lanes of the query before write one after another: who reads on sees an order within each of its keys only."""
    return memory_and_spark.by_key((key, value, 0) for key, value, _ in records)
