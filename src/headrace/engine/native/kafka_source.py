"""Kafka as the source of a native query: Spark's connector reads, Python decodes.

Rows of a batch are ordered by time (see `io.kafka_source`), so lateness is decided by the stream time before the batch
alone; ticks among them only count for the next one. The stream time is stored beside the checkpoint, for the last
committed batch and for the next one: a repeated batch uses the same stream time as before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.contracts import Batch
from headrace.engine.io.columns import coalesce_batches
from headrace.engine.io.kafka_messages import to_batches, with_topic
from headrace.engine.io.kafka_source import stream_messages, worker_log
from headrace.engine.native.embedded_source import rows_for_spark
from headrace.engine.native.task_spec import NativeTaskSpec
from headrace.engine.native.watermark import WatermarkState, merge_watermarks, parse_watermark
from headrace.engine.task_report import TaskReport
from headrace.errors import QueryFailed
from headrace.log.kafka.log import KafkaLog
from headrace.settings import Settings

_STREAM_TIME = "headrace.before"


def read_rows(
    spark: SparkSession, log: KafkaLog, topic: str, spec: NativeTaskSpec, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """Reads the topic as a stream of the columns in `spec.arrow`."""
    topics = [log.topic(name) for name in (topic, spec.ticks) if name]
    rows = stream_messages(spark, log.settings, topics, start, max_rows)
    rows = rows if spec.ticks else rows.drop("topic")
    return rows.mapInArrow(_decoder(log.settings, topic, spec), from_arrow_schema(spec.arrow))


def _decoder(
    settings: Settings, name: str, spec: NativeTaskSpec
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(messages: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, log = TaskContext.get(), worker_log(settings)
        topic, stored = log.topic(name), context and context.getLocalProperty(_STREAM_TIME)
        before = parse_watermark(*json.loads(stored)) if stored else WatermarkState()
        raw = {name, spec.ticks} if topic.schema.is_raw else {spec.ticks}
        pieces = (part if spec.ticks else with_topic(part, name) for part in coalesce_batches(messages))
        batches = (_with_offset_sequence(batch) for piece in pieces for batch in to_batches(piece, log, raw))
        task = str(context.partitionId()) if context else "0"
        return rows_for_spark(batches, topic, spec, before, task)

    return decode


def _with_offset_sequence(batch: Batch) -> Batch:
    """Within a partition, rows are identified and ordered by their offsets."""
    at = batch.rows.schema.get_field_index("$sequence")
    rows = batch.rows.set_column(at, batch.rows.schema.field(at), batch.rows.column("$offset"))
    return Batch(batch.topic, batch.partition, rows, batch.next_offset)


class StreamTimeFile:
    """Stores the stream time before the last committed batch, and after it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "stream-time.json"

    def before(self, batch: int) -> Any:
        """The stored stream time before a batch; None before the first batch."""
        stored = self._read()
        if not stored and batch == 0:
            return None
        if stored.get("batch") not in (batch, batch - 1):
            raise QueryFailed(
                f"the stream time before batch {batch} is unknown",
                where=str(self._path),
                fix="do not remove or copy single files of a checkpoint; restart the query with an empty checkpoint",
            )
        return stored["before"] if stored["batch"] == batch else stored["behind"]

    def store(self, batch: int, before: Any, after: Any) -> None:
        new = self._path.with_suffix(".new")
        with new.open("w") as file:
            json.dump({"batch": batch, "before": before, "behind": after}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def _read(self) -> dict[str, Any]:
        try:
            return json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}


class DriverStreamTime:
    """On Kafka, whose offsets have no times: passes the stream time to the tasks of a batch."""

    def __init__(self, folder: Path, spec: NativeTaskSpec) -> None:
        self._times = StreamTimeFile(folder)
        self._spec = spec
        self._before = WatermarkState()

    def begin(self, spark: SparkSession, batch: int) -> None:
        stored = self._times.before(batch)
        self._before = WatermarkState() if stored is None else parse_watermark(*stored)
        spark.sparkContext.setLocalProperty(_STREAM_TIME, json.dumps(self._before))

    def end(self, batch: int, reports: Sequence[TaskReport]) -> None:
        self._times.store(batch, self._before, merge_watermarks(reports, self._before, self._spec))
