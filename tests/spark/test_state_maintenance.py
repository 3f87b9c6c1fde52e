"""The disk space of a query does not grow with the number of its batches, however short its runs are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.control.program import Program
from headrace.engine.spark import session
from headrace.log.embedded import EmbeddedLog
from tests import memory_and_spark

SCRIPT = """
CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');
CREATE TABLE counts AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;
CREATE TABLE visits AS SELECT page, COUNT(*) AS n FROM clicks WINDOW SESSION (5 SECONDS) GROUP BY page;
"""
KEPT = 4
"""Batches of which Spark keeps something."""
LIVES, BATCHES = 5, 9
BOUND = 20
"""Changes of a store that are kept: since the last snapshot but one, of which there is one every ten batches."""


def test_the_number_of_files_of_a_query_is_bounded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each life is shorter than the minute after which Spark would look after the state by itself."""
    monkeypatch.setattr(session, "CONF", {**session.CONF, "spark.sql.streaming.minBatchesToRetain": str(KEPT)})
    settings = memory_and_spark.settings(
        tmp_path, query_execution_mode="auto", query_emit="per-batch", query_max_batch_rows=1
    )
    ways: dict[str, Path] = {}
    with EmbeddedLog(settings.storage.data, settings) as log:
        for life in range(LIVES):
            with Program(log, settings) as program:
                program.execute(SCRIPT)
                for number in range(BATCHES):
                    memory_and_spark.append(log, "clicks", "1", f'{{"PAGE": "/{number}"}}', life)
                program.wait(until_idle=True)
                ways = {running.execution_mode: running.folder / "spark" for running in program.running.values()}
        last = [value for _, value, _ in memory_and_spark.written(log, "COUNTS")][-BATCHES:]
    assert spark.conf.get("spark.sql.streaming.minBatchesToRetain") == str(KEPT)
    assert last == [b'{"N":%d}' % LIVES] * BATCHES
    assert ways.keys() == {"native", "record"}
    for folder in ways.values():
        changes = Counter(path.parent for path in folder.glob("state/**/*.changelog"))
        assert len(changes) == settings.spark.shuffle_partitions
        assert max(changes.values()) <= BOUND < LIVES * BATCHES
        assert all(len(list((folder / kind).glob("[0-9]*"))) <= KEPT + 2 for kind in ("offsets", "commits"))
