"""A replayed batch gives the same bytes; and strict queries fail rather than skip a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from pyspark.sql import SparkSession

from headrace.control.program import Program
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import InProcess, OnBatch
from headrace.engine.log_adapter import Position
from headrace.errors import ProcessLost, QueryFailed
from headrace.log.embedded import EmbeddedLog
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.conftest import forget_last_commit

NUMBERS = "CREATE STREAM numbers (id INT KEY, n INT) WITH (kafka_topic='numbers', format='JSON');\n"
DRAWN = """
CREATE STREAM plain AS SELECT id, UUID() AS a, RANDOM() AS r, UNIX_TIMESTAMP() AS t FROM numbers;
CREATE TABLE kept AS SELECT id, COUNT(*) AS n, MAX(RANDOM()) AS r, MAX(UNIX_TIMESTAMP()) AS t FROM numbers GROUP BY id;
"""
STRICT = "SET 'ksql.fail.on.deserialization.error' = 'true';\n"
ALL = "CREATE STREAM everything AS SELECT * FROM numbers;\n"


@pytest.fixture
def settings(spark: SparkSession, tmp_path: Path) -> Settings:
    del spark  # there before any program asks for it
    return memory_and_spark.settings(tmp_path, query_emit="per-record")


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened


def run(log: EmbeddedLog, settings: Settings, text: str) -> Program:
    with Program(log, settings) as program:
        program.execute(text)
        program.wait(until_idle=True)
    return program


def test_a_replayed_batch_has_the_same_random_values(log: EmbeddedLog, settings: Settings) -> None:
    log.create_topic("numbers")
    for n in range(3):
        memory_and_spark.append(log, "numbers", "1", json.dumps({"N": n}), n)
    program = run(log, settings, NUMBERS + DRAWN)
    first = {topic: memory_and_spark.written(log, topic) for topic in ("PLAIN", "KEPT")}
    for (
        running
    ) in program.running.values():  # as if nothing had been written, and the driver had died before Spark knew
        forget_last_commit(running.folder / "spark")
        log.delete_topic(running.query.sink.topic)
    with log.store.transaction() as db:
        db.execute("UPDATE writers SET last = NULL")
    run(log, settings, NUMBERS + DRAWN)
    assert {topic: memory_and_spark.written(log, topic) for topic in first} == first
    times = {json.loads(value or b"")["T"] for _, value, _ in first["PLAIN"]}
    assert len(times) == 1
    assert min(times) > 1_600_000_000_000  # the batch's, not the records'


class Flaky(InProcess):
    """Loses a process on the way, now and then."""

    losses: ClassVar[list[str]] = []

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        running = super().start(query, folder, position, on_batch, setup)
        if len(self.losses) < 2:
            running.stop()
            self.losses.append(query.id)
            raise ProcessLost("a process was not there in time")
        return running


def test_a_failed_start_is_retried(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings, isolation=Flaky("program", log, settings)) as program:
        program.execute(NUMBERS + ALL + "INSERT INTO numbers VALUES (1, 1);")
        program.wait(until_idle=True)
    assert Flaky.losses == ["CSAS_EVERYTHING_0"] * 2
    assert len(memory_and_spark.written(log, "EVERYTHING")) == 1


def test_a_strict_query_fails_at_an_invalid_record(log: EmbeddedLog, settings: Settings) -> None:
    log.create_topic("numbers")
    for text in ('{"N": 1}', '{"N": ', '{"N": 3}'):
        memory_and_spark.append(log, "numbers", "1", text, 0)
    with pytest.raises(QueryFailed, match="bad-record") as failed:
        run(log, settings, NUMBERS + STRICT + ALL)
    assert failed.value.where == "topic numbers, partition 0, offset 1"
    assert memory_and_spark.written(log, "EVERYTHING") == memory_and_spark.written(log, "EVERYTHING.dead") == []
    run(log, settings, NUMBERS + ALL)
    assert [json.loads(value or b"") for _, value, _ in memory_and_spark.written(log, "EVERYTHING")] == [
        {"N": 1},
        {"N": 3},
    ]
    assert len(memory_and_spark.written(log, "EVERYTHING.dead")) == 1
