"""Kafka under a native query: Spark's connector reads, Python opens what it read, results go out by lanes.

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

from headrace.contracts import Append, Batch, dead_letter_topic
from headrace.engine.kafka_rows import batches_of
from headrace.engine.kafka_sink import write_lane
from headrace.engine.kafka_source import Cuts, subscribed, worker_log
from headrace.engine.native.moments import Deadlines, Moment, moment, reached
from headrace.engine.native.notes import Attempt
from headrace.engine.native.sink import Encoding, in_order, report_of
from headrace.engine.native.source import given
from headrace.engine.native.work import Work
from headrace.engine.record.packing import unpacked_rows
from headrace.engine.reports import OnReport, Report
from headrace.errors import QueryFailed
from headrace.faultpoints import reach
from headrace.log.kafka.log import KafkaLog
from headrace.settings import Settings

BEFORE = "headrace.before"
_LANES = 2  # for ever: a repeat must find its rows in the same ones
_WRITTEN = "topic string, rows bigint"


def read_rows(
    spark: SparkSession, log: KafkaLog, topic: str, work: Work, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """The topic as a stream of the columns that `work.arrow` says."""
    topics = [log.topic(name) for name in (topic, work.ticks) if name]
    reader = subscribed(spark.readStream.format("kafka"), log.settings, topics)
    rows = reader.option("startingOffsets", start).option("maxOffsetsPerTrigger", str(max_rows)).load()
    return rows.mapInArrow(_opening(log.settings, topic, work), from_arrow_schema(work.arrow))


def _opening(
    settings: Settings, name: str, work: Work
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def opened(messages: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, log = TaskContext.get(), worker_log(settings)
        topic, known = log.topic(name), context and context.getLocalProperty(BEFORE)
        before = moment(*json.loads(known)) if known else Moment()
        raw = {name, work.ticks} if topic.schema.is_raw else {work.ticks}
        batches = (sequenced(batch) for found in messages for batch in batches_of(found, log, raw))
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


class NativeLanes:
    """Pass `write` to `foreachBatch`: each lane's part of a batch in one transaction, the dead letters in another."""

    def __init__(self, log: KafkaLog, query: str, work: Work, cuts: Cuts, folder: Path, on_report: OnReport) -> None:
        self._settings = log.settings
        self._query = query
        self._work = work
        self._cuts = cuts
        self._times = Times(folder)
        self._topics = [log.topic(name) for name in (work.plan.sink.topic, dead_letter_topic(work.plan.sink.topic))]
        self._on_report = on_report
        self._deadlines = Deadlines(work)

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once. One that is there already is computed all the same: its state must come to be."""
        self._cuts.journal(batch)
        reach("cut.journalled")
        before, spark = self.known(self._times.before(batch)), rows.sparkSession
        attempt = Attempt(spark, Path(self._work.folder))
        spark.sparkContext.setLocalProperty(BEFORE, json.dumps(before))
        found = self.laned(rows).mapInArrow(self._lane(batch), _WRITTEN).collect()
        notes = attempt.notes()
        self._write_letters(batch, [letters for _, letters in notes if letters])
        reach("lanes.written")
        reports = [*(report for report, _ in notes), report_of(found, self._topics[0].name)]
        self._times.keep(batch, before, self.reached(before, reports))
        self._on_report(batch, self._deadlines.told(reports))

    def known(self, kept: Any) -> Any:
        """How far the stream was, as it was kept."""
        return Moment() if kept is None else moment(*kept)

    def reached(self, before: Any, reports: Sequence[Report]) -> Any:
        """How far the stream is behind a batch."""
        return reached(reports, before, self._work)

    def laned(self, rows: DataFrame) -> DataFrame:
        """By key, so that a repeat gives a lane the same rows, in their order; groups are so already."""
        if self._work.aggregates:
            return in_order(rows, self._work)
        keys = [name for name in rows.columns if name[0] == "k" and name[1:].isdigit()]
        return rows.repartition(_LANES, *(keys or ["time"]))

    def _lane(self, batch: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        settings, query, topics, encoding = self._settings, self._query, list(self._topics), Encoding(self._work)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            lane = context.partitionId() if context else 0
            parts = [part for one in batches for part in encoding(one, topics)]
            write_lane(settings, f"query.{query}.{lane}", batch, [Append(topic.name, rows) for topic, rows in parts])
            counts = [(topic.name, len(rows)) for topic, rows in parts]
            yield pa.RecordBatch.from_pydict(
                {"topic": pa.array([c[0] for c in counts], pa.string()), "rows": pa.array([c[1] for c in counts])}
            )

        return write

    def _write_letters(self, batch: int, letters: list[bytes]) -> None:
        appends = [Append(self._topics[1].name, unpacked_rows(payload)) for payload in letters]
        write_lane(self._settings, f"query.{self._query}.letters", batch, appends)
