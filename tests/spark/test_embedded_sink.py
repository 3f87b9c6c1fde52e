"""Spark writes to the embedded log exactly once, also if a batch runs again, to one topic or several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from headrace.contracts import Append, TopicSpec
from headrace.engine.io.embedded_source import read_batch, read_stream
from headrace.engine.io.sink import EmbeddedSink
from headrace.errors import WriterFenced
from headrace.log.embedded import EmbeddedLog
from headrace.schema import Schema
from tests.spark.conftest import drain, forget_last_commit

CLICKS = TopicSpec(partitions=2, schema=Schema.parse("user bigint key, page string, amount double"))
COUNTS = TopicSpec(schema=Schema.parse("page string key, views bigint, amount double"))
COPY = TopicSpec(partitions=2, schema=CLICKS.schema)


def clicks(count: int, seed: int) -> pa.RecordBatch:
    dice = np.random.default_rng(seed)
    pages = pa.array([f"/{n}" for n in range(7)])
    return pa.RecordBatch.from_pydict(
        {
            "user": dice.integers(0, 50, count),
            "page": pages.take(pa.array(dice.integers(0, 7, count))),
            "amount": dice.integers(0, 100, count).astype(float),
        }
    )


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("page").agg(fn.count("*").alias("views"), fn.sum("amount").alias("amount"))


def latest(log: EmbeddedLog, topic: str) -> dict[str, tuple[int, float]]:
    rows = log.read(topic, 0, 0, max_records=100_000).rows.to_pylist()
    return {row["page"]: (row["views"], row["amount"]) for row in rows}


def batch_answer(spark: SparkSession, log: EmbeddedLog) -> dict[str, tuple[int, float]]:
    rows = counted(read_batch(spark, log.folder, ["clicks"])).collect()
    return {row.page: (row.views, row.amount) for row in rows}


def test_a_stateful_query_survives_repeated_batches(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("clicks", CLICKS)
    log.create_topic("counts", COUNTS)
    written: list[int] = []
    for turn in range(3):
        log.append([Append("clicks", clicks(500, turn))])
        sink = EmbeddedSink(log, "q", ["counts"])
        stream = counted(read_stream(spark, log.folder, ["clicks"], max_rows=200))
        drain(stream, sink.write, tmp_path / "c", mode="update")
        written.append(log.bounds("counts")[0].end)
        forget_last_commit(tmp_path / "c")
    # The batch that ran again wrote nothing, and its state still counts: the sums below include it.
    sink = EmbeddedSink(log, "q", ["counts"])
    drain(counted(read_stream(spark, log.folder, ["clicks"], max_rows=200)), sink.write, tmp_path / "c", mode="update")
    assert log.bounds("counts")[0].end == written[-1]
    assert latest(log, "counts") == batch_answer(spark, log)


def test_a_copy_has_each_row_once(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("clicks", CLICKS)
    log.create_topic("copy", COPY)
    log.append([Append("clicks", clicks(2_000, 1))])
    for _ in range(3):
        sink = EmbeddedSink(log, "copy", ["copy"])
        drain(read_stream(spark, log.folder, ["clicks"], max_rows=700), sink.write, tmp_path / "c")
        forget_last_commit(tmp_path / "c")
    assert rows_of(log, "copy") == rows_of(log, "clicks")


def rows_of(log: EmbeddedLog, topic: str) -> list[tuple]:
    parts = [log.read(topic, p, 0, max_records=100_000).rows for p in log.bounds(topic)]
    names = ("user", "page", "amount", "$timestamp")
    return sorted(row for part in parts for row in zip(*(part.column(n).to_pylist() for n in names), strict=True))


def test_several_topics_are_written_in_one_action(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("clicks", CLICKS)
    log.create_topic("few", COPY)
    log.create_topic("many", TopicSpec(schema=Schema.parse("page string key, amount double")))
    log.append([Append("clicks", clicks(300, 2))])
    source = read_stream(spark, log.folder, ["clicks"])
    routed = source.select(
        fn.when(fn.col("amount") < 10, "few").otherwise("many").alias("$topic"),
        fn.when(fn.col("amount") < 10, fn.struct("user", "page", "amount")).alias("few"),
        fn.when(fn.col("amount") >= 10, fn.struct("page", "amount")).alias("many"),
    )
    sequence = log.head(["clicks"])
    drain(routed, EmbeddedSink(log, "route", ["few", "many"]).write, tmp_path / "c")
    amounts = clicks(300, 2).column("amount").to_pylist()
    assert sum(b.end for b in log.bounds("few").values()) == sum(amount < 10 for amount in amounts)
    assert log.bounds("many")[0].end == sum(amount >= 10 for amount in amounts)
    assert log.head(["few", "many"]) == sequence + 300


def test_a_second_driver_fences_the_first(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create_topic("counts", COUNTS)
    rows = spark.createDataFrame([("/", 1, 1.0)], "page string, views bigint, amount double")
    first = EmbeddedSink(log, "q", ["counts"])
    first.write(rows, 0)
    second = EmbeddedSink(log, "q", ["counts"])
    with pytest.raises(WriterFenced):
        first.write(rows, 1)
    second.write(rows, 0)
    second.write(rows, 1)
    assert log.bounds("counts")[0].end == 2


def test_a_topic_may_be_altered_between_staging_and_commit(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create_topic("counts", COUNTS)
    sink = EmbeddedSink(log, "q", ["counts"])
    log.alter_topic("counts", schema=Schema.parse("page string key, views bigint, amount double, note string"))
    sink.write(spark.createDataFrame([("/", 1, 1.0)], "page string, views bigint, amount double"), 0)
    (row,) = log.read("counts", 0, 0).rows.to_pylist()
    assert (row["page"], row["views"], row["note"]) == ("/", 1, None)


def test_large_batches_become_files(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("clicks", CLICKS)
    log.create_topic("copy", COPY)
    log.append([Append("clicks", clicks(200_000, 3))])
    sink = EmbeddedSink(log, "copy", ["copy"])
    drain(read_stream(spark, log.folder, ["clicks"]), sink.write, tmp_path / "c")
    assert sum(b.end for b in log.bounds("copy").values()) == 200_000
    named = {file for (file,) in log.store.query("SELECT file FROM extents WHERE file IS NOT NULL")}
    assert {path.name for path in (log.folder / "extents").iterdir()} == named
