"""The demo's query: clicks per page and minute, from a topic to a topic, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from headrace.engine.failures import failure_of
from headrace.engine.session import spark_session
from headrace.engine.sink import EmbeddedSink
from headrace.engine.source import read_stream
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings


@contextmanager
def counting(
    log: EmbeddedLog, settings: Settings, checkpoint: Path, on_batch: Callable[[], None]
) -> Iterator[Callable[[], None]]:
    """Count `clicks` into `page_counts` while the block runs; what it gets raises, if the query has ended, why."""
    spark = spark_session(settings, "headrace demo")
    sink = EmbeddedSink(log, "demo", ["page_counts"])

    def write(rows: DataFrame, batch: int) -> None:
        sink.write(rows, batch)
        on_batch()

    clicks = read_stream(spark, log.folder, ["clicks"], columns=["page", "dwell", "$timestamp"], max_rows=500_000)
    counts = (
        clicks.withWatermark("`$timestamp`", "2 minutes")
        .groupBy("page", fn.window("$timestamp", "1 minute").start.alias("minute"))
        .agg(fn.count("*").alias("views"), fn.sum("dwell").alias("dwell"))
    )
    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(write)
        .start()
    )

    def check() -> None:
        if error := query.exception():
            raise failure_of(error, "demo", checkpoint)

    try:
        yield check
    finally:
        if query.isActive:
            query.processAllAvailable()  # a batch that is torn off fills the terminal with Java's complaints
        query.stop()
        spark.stop()
