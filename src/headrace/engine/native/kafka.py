"""Kafka under a native query: Spark's connector reads, Python opens what it read.

Rows of a batch are in order of their times (see `kafka_source`), so what is late is decided by the time of the stream
before the batch alone; ticks among them only count for the next one. How far the stream was is kept beside the
checkpoint, for the batch that was done last and for the next one: a batch that is repeated finds what it found before.
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
from headrace.engine.columns import gathered
from headrace.engine.kafka_rows import batches_of, of_topic
from headrace.engine.kafka_source import streamed, worker_log
from headrace.engine.native.moments import Moment, moment, reached
from headrace.engine.native.source import given
from headrace.engine.native.work import Work
from headrace.engine.reports import Report
from headrace.errors import QueryFailed
from headrace.log.kafka.log import KafkaLog
from headrace.settings import Settings

BEFORE, BATCH = "headrace.before", "headrace.batch"


def read_rows(
    spark: SparkSession, log: KafkaLog, topic: str, work: Work, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """The topic as a stream of the columns that `work.arrow` says."""
    topics = [log.topic(name) for name in (topic, work.ticks) if name]
    rows = streamed(spark, log.settings, topics, start, max_rows)
    rows = rows if work.ticks else rows.drop("topic")
    return rows.mapInArrow(_opening(log.settings, topic, work), from_arrow_schema(work.arrow))


def _opening(
    settings: Settings, name: str, work: Work
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def opened(messages: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, log = TaskContext.get(), worker_log(settings)
        topic, known = log.topic(name), context and context.getLocalProperty(BEFORE)
        before = moment(*json.loads(known)) if known else Moment()
        raw = {name, work.ticks} if topic.schema.is_raw else {work.ticks}
        pieces = (found if work.ticks else of_topic(found, name) for found in gathered(messages))
        batches = (sequenced(batch) for found in pieces for batch in batches_of(found, log, raw))
        task = str(context.partitionId()) if context else "0"
        return given(batches, topic, work, before, task)

    return opened


def sequenced(batch: Batch) -> Batch:
    """Within a partition, rows are told apart and ordered by their offsets."""
    at = batch.rows.schema.get_field_index("$sequence")
    rows = batch.rows.set_column(at, batch.rows.schema.field(at), batch.rows.column("$offset"))
    return Batch(batch.topic, batch.partition, rows, batch.next_offset)


class Times:
    """How far the stream was before the batch that was done last, and behind it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "stream-time.json"

    def before(self, batch: int) -> Any:
        """What was kept; None before the first batch."""
        found = self._found()
        if not found and batch == 0:
            return None
        if found.get("batch") not in (batch, batch - 1):
            raise QueryFailed(
                f"the time of the stream before batch {batch} is not known",
                where=str(self._path),
                fix="do not remove or copy single files of a checkpoint; start the query anew with an empty one",
            )
        return found["before"] if found["batch"] == batch else found["behind"]

    def keep(self, batch: int, before: Any, behind: Any) -> None:
        new = self._path.with_suffix(".new")
        with new.open("w") as file:
            json.dump({"batch": batch, "before": before, "behind": behind}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def _found(self) -> dict[str, Any]:
        try:
            return json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}


class ToldByDriver:
    """On Kafka, whose offsets say nothing of time: how far the stream was goes along with the batch."""

    def __init__(self, folder: Path, work: Work) -> None:
        self._times = Times(folder)
        self._work = work
        self._before: Any = None

    def begin(self, spark: SparkSession, batch: int) -> None:
        self._before = self.known(self._times.before(batch))
        spark.sparkContext.setLocalProperty(BEFORE, json.dumps(self._before))
        spark.sparkContext.setLocalProperty(BATCH, str(batch))

    def end(self, batch: int, reports: Sequence[Report]) -> None:
        self._times.keep(batch, self._before, self.reached(self._before, reports))

    def known(self, kept: Any) -> Any:
        """How far the stream was, as it was kept."""
        return Moment() if kept is None else moment(*kept)

    def reached(self, before: Any, reports: Sequence[Report]) -> Any:
        """How far the stream is behind a batch."""
        return reached(reports, before, self._work)
