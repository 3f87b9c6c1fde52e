"""Cases of table `log` that go through Spark: the scan of a topic, and much data with little memory outside the JVM.

Each function gets its settings, an empty folder and Kafka's address in `work`, fills its topic, then measures. The scan
is the same on both sides: all columns of ten million clicks, summed up, so that no column can be left unread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from bench.harness.case import Outcome, Work
from bench.tables import log_kafka
from bench.tables.log_records import batches, pool
from headrace.contracts import Ack, Append, TopicSpec
from headrace.engine.io.embedded_source import read_batch, read_stream
from headrace.engine.spark.session import spark_session
from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka.jars import spark_jars
from headrace.schema import Schema
from headrace.settings import Settings, Size

_CLICKS = Schema.parse("user bigint, page string, amount double, at timestamp")
_COLUMNS = ("user", "page", "amount", "at")
_BATCH = 100_000


def scan_embedded(work: Work) -> Outcome:
    """A typed embedded topic, read by Spark through headrace's data source."""
    with closing(EmbeddedLog(work.folder / "log")) as log:
        log.create_topic("clicks", TopicSpec(schema=_CLICKS))
        for rows in _clicks(work["records"]):
            log.append([Append("clicks", rows)], ack=Ack.ALL)
        spark = spark_session(Settings(), "bench scan")
        return _scan(work, spark, lambda: read_batch(spark, log.folder, ["clicks"], columns=_COLUMNS))


def scan_kafka_json(work: Work) -> Outcome:
    """The same rows as JSON in Kafka, read by Spark's connector and parsed with from_json."""
    topic = log_kafka.create_topic(work, partitions=2)
    sender = log_kafka.producer(work.services["kafka"], compression_type="lz4", linger_ms=20, batch_size=1_000_000)
    for rows in _clicks(work["records"]):
        for row in zip(*(rows.column(name).to_pylist() for name in ("user", "page", "amount")), strict=True):
            value = b'{"user":%d,"page":"%s","amount":%.6f,"at":"2026-01-01T00:00:00.000Z"}' % (
                row[0],
                row[1].encode(),
                row[2],
            )
            while True:
                try:
                    sender.produce(topic, value)
                    break
                except BufferError:
                    sender.poll(0.1)
            sender.poll(0)
    sender.flush()
    settings = Settings()
    spark = spark_session(settings, "bench scan", jars=spark_jars(settings))
    try:
        return _scan(work, spark, lambda: _parsed(spark, work.services["kafka"], topic))
    finally:
        log_kafka.delete_topic(work, topic)


def _parsed(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    raw = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
    schema = "user bigint, page string, amount double, at timestamp"
    return raw.select(fn.from_json(raw.value.cast("string"), schema).alias("row")).select("row.*")


def _scan(work: Work, spark: SparkSession, read: Callable[[], DataFrame]) -> Outcome:
    """All scans but the first ones, which warm up the JVM's compiler."""
    seconds: list[float] = []
    for _ in range(work["scans"]):
        started = time.perf_counter()
        (sums,) = _summed(read()).collect()
        seconds.append(time.perf_counter() - started)
        if sums["count"] != work["records"]:
            raise RuntimeError(f"of {work['records']} rows only {sums['count']} were scanned")
    spark.stop()
    timed = seconds[work["warmup_scans"] :]
    return Outcome(work["records"] * len(timed), sum(timed))


def _summed(rows: DataFrame) -> DataFrame:
    """Every sum is collected: Spark skips columns that are not used, and their parsing."""
    touched = [fn.sum("user"), fn.sum(fn.length("page")), fn.sum("amount"), fn.max("at")]
    return rows.agg(fn.count("*").alias("count"), *touched)


def _clicks(count: int) -> Iterator[pa.RecordBatch]:
    dice = np.random.default_rng(7)
    pages = pa.array([f"/page/{n:04d}" for n in range(1000)])
    for start in range(0, count, _BATCH):
        rows = min(_BATCH, count - start)
        yield pa.RecordBatch.from_pydict(
            {
                "user": pa.array(dice.integers(0, 1_000_000, rows)),
                "page": pages.take(pa.array(dice.integers(0, len(pages), rows))),
                "amount": pa.array(dice.random(rows)),
                "at": pa.array(np.arange(start, start + rows), pa.timestamp("ms", "UTC")),
            }
        )


def through(work: Work) -> Outcome:
    """Append everything, then let a streaming query take it in bounded batches; Spark and its workers count apart."""
    count = work["records"] // work["batch_rows"]
    rows = list(batches(pool(work), work["batch_rows"]))
    settings = Settings().replace(spark_driver_memory=Size(1 << 30))
    with closing(EmbeddedLog(work.folder / "log")) as log:
        log.create_topic("through", TopicSpec())
        started = time.perf_counter()
        for turn in range(count):
            log.append([Append("through", rows[turn % len(rows)])], ack=Ack.ALL)
        spark = spark_session(settings, "bench through")
        stream = read_stream(
            spark, log.folder, ["through"], columns=["key", "value"], max_rows=work["micro_batch_rows"]
        )
        query = (
            stream.agg(fn.count("*"), fn.sum(fn.length("value")))
            .writeStream.format("noop")
            .outputMode("complete")
            .option("checkpointLocation", str(work.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows_read = sum(progress["numInputRows"] for progress in query.recentProgress)
        seconds = time.perf_counter() - started
        spark.stop()
    extra = {"seen": float(rows_read)}
    return Outcome(count * work["batch_rows"], seconds, extra=extra)
