"""The Spark writer: two streaming queries over one topic, a copy and a count by key, each into a topic of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from tests.faults.log.activity import ActivityPage
from tests.faults.log.worker import SETTINGS

from headrace.engine.io.embedded_source import read_stream
from headrace.engine.io.sink import EmbeddedSink
from headrace.engine.spark.session import spark_session
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings, Size

# A life is short: what the better compiler would gain is not worth its time.
_QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_BATCH = 400  # rows of a micro-batch: many small ones give many moments to die in


def stream(folder: Path, pulse: ActivityPage, *, drain: bool) -> None:
    """Run both queries until killed; to `drain` is to read what there is, and end."""
    spark = spark_session(Settings.of(spark_driver_memory=Size(1 << 30)), "faults", conf=_QUICK)
    log = EmbeddedLog(folder, SETTINGS)
    most = None if drain else _BATCH
    rows, more = (read_stream(spark, folder, ["single"], columns=["key", "value"], max_rows=most) for _ in range(2))
    counts = more.groupBy("key").count().selectExpr("key", "cast(cast(count as string) as binary) as value")

    def start(lane: int, name: str, plan: DataFrame, topic: str) -> StreamingQuery:
        write = _shown(EmbeddedSink(log, name, [topic]).write, pulse, name, lane)
        query = plan.writeStream.foreachBatch(write).outputMode("update")
        query = query.option("checkpointLocation", str(folder.parent / "checkpoints" / name))
        return (query.trigger(availableNow=True) if drain else query).start()

    queries = [start(0, "copy", rows.select("key", "value"), "copied"), start(1, "count", counts, "counted")]
    for query in queries:
        query.awaitTermination()
    log.close()
    spark.stop()


def _shown(write: Callable[[DataFrame, int], None], pulse: ActivityPage, name: str, lane: int) -> Callable:
    """The sink's write, seen from outside."""

    def shown(rows: DataFrame, batch: int) -> None:
        with pulse.inside(name, lane):
            write(rows, batch)

    return shown
