"""What a person would write in PySpark for the queries of table `engine`: nothing but this query in it.

Over the embedded log it reads by the same source and writes by the same exactly-once sink as our own queries, so that
what differs is what a statement costs beside code written by hand. Over Parquet files it is plain Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.harness.case import Outcome, Work
from bench.tables import engine_results as results
from bench.tables.engine_program import settings_of
from bench.tables.engine_queries import GRACE, WINDOW_SECONDS
from bench.tables.engine_rows import LEAST, expected, fill_typed, write_parquet
from headrace.contracts import TopicSpec
from headrace.engine.io.embedded_source import read_stream
from headrace.engine.io.sink import EmbeddedSink
from headrace.engine.spark.session import spark_session
from headrace.log.embedded import EmbeddedLog
from headrace.schema import Schema
from headrace.settings import Settings

PARQUET = "user string, page string, amount bigint, at timestamp"

RESULTS: Mapping[str, Schema] = {
    "filter": Schema.parse("user string key, page string, doubled bigint"),
    "keyed": Schema.parse("user string key, n bigint, total bigint"),
    "windowed": Schema.parse("user string key, started bigint key, n bigint, total bigint"),
}


def filter(rows: DataFrame) -> DataFrame:
    return rows.where(rows.amount > LEAST).select("user", "page", (rows.amount * 2).alias("doubled"))


def keyed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("user").agg(fn.count("*").alias("n"), fn.sum("amount").alias("total"))


def windowed(rows: DataFrame) -> DataFrame:
    window = fn.window("at", f"{WINDOW_SECONDS} seconds").alias("window")
    counted = rows.withWatermark("at", GRACE).groupBy("user", window)
    aggregated = counted.agg(fn.count("*").alias("n"), fn.sum("amount").alias("total"))
    return aggregated.select("user", fn.unix_millis("window.start").alias("started"), "n", "total")


_QUERIES: Mapping[str, Callable[[DataFrame], DataFrame]] = {"filter": filter, "keyed": keyed, "windowed": windowed}


def embedded(work: Work) -> Outcome:
    settings, query = settings_of(work), work["query"]
    with closing(EmbeddedLog(settings.storage.data, settings)) as log:
        fill_typed(log, "warming", work["warmup_records"], work["users"])
        fill_typed(log, "clicks", work["records"], work["users"])
        for out in ("warmed", "results"):
            log.create_topic(out, TopicSpec(schema=RESULTS[query]))
        spark = spark_session(settings, "bench by hand")
        _embedded(spark, log, settings, query, "warming", "warmed")
        seconds = _embedded(spark, log, settings, query, "clicks", "results")
        results.check(query, results.in_log(log, "results"), expected(query, work["records"], work["users"]))
    return Outcome(work["records"], seconds)


def _embedded(spark: SparkSession, log: EmbeddedLog, settings: Settings, query: str, topic: str, out: str) -> float:
    started = time.perf_counter()
    columns = ["user", "page", "amount", "$timestamp"] if query == "windowed" else ["user", "page", "amount"]
    rows = read_stream(spark, log.folder, [topic], columns=columns, max_rows=settings.query.max_batch_rows)
    rows = rows.withColumnRenamed("$timestamp", "at")
    sink = EmbeddedSink(log, f"by-hand-{out}", [out])
    finish(_stream_writer(_QUERIES[query](rows), query, settings.storage.data / out).foreachBatch(sink.write).start())
    return time.perf_counter() - started


def parquet(work: Work) -> Outcome:
    settings = settings_of(work)
    sizes = {"warming": work["warmup_records"], "measured": work["records"]}
    folders = [write_parquet(work.folder / name, rows, work["users"]) for name, rows in sizes.items()]
    spark = spark_session(settings, "bench by hand")
    _, seconds = [_parquet(spark, work["query"], folder) for folder in folders]
    check_files(spark, work, folders[1])
    return Outcome(work["records"], seconds)


def check_files(spark: SparkSession, work: Work, folder: Path) -> None:
    """Checks that the figure is that of this query; discarded results cannot be checked."""
    if work["query"] == "filter":
        count = spark.read.parquet(str(_out(folder))).count()
        results.compare("filter", count, expected("filter", work["records"], work["users"]))


def _out(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-out")


def _parquet(spark: SparkSession, query: str, folder: Path) -> float:
    """A filter's rows go to files; the changes of a table are discarded, as in Flink."""
    started = time.perf_counter()
    rows = spark.readStream.schema(PARQUET).parquet(str(folder))
    finish(file_writer(_QUERIES[query](rows), query, folder).start())
    return time.perf_counter() - started


def file_writer(rows: DataFrame, query: str, folder: Path) -> DataStreamWriter:
    """Writes a filter's rows to files in a folder next to the input."""
    out = _out(folder)
    writing = _stream_writer(rows, query, folder.with_name(f"{folder.name}-checkpoint"))
    return writing.format("parquet").option("path", str(out)) if query == "filter" else writing.format("noop")


def _stream_writer(rows: DataFrame, query: str, checkpoint: Path) -> DataStreamWriter:
    writing = rows.writeStream.outputMode("append" if query == "filter" else "update")
    return writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def finish(query: StreamingQuery) -> None:
    query.awaitTermination()
    if (error := query.exception()) is not None:
        raise error
