"""Kafka as the source of two joined streams: read by Spark's connector as one source.

Rows of a batch are ordered by time, those of one time by topic (see `io.kafka_source`). So within a batch no row is
late, and none has been dropped when a partner arrives, since partners are closer in time than the retention: what
counts is the time of each side before the batch. It is stored beside the checkpoint, as for windows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.contracts import Batch
from headrace.engine.io.columns import coalesce_batches
from headrace.engine.io.kafka_messages import to_batches
from headrace.engine.io.kafka_source import stream_messages, worker_log
from headrace.engine.native import task_notes
from headrace.engine.native.input_rows import InputRows, decode_batch
from headrace.engine.native.kafka_source import (
    BATCH_PROPERTY,
    STREAM_TIME_PROPERTY,
    DriverStreamTime,
    with_offset_sequence,
)
from headrace.engine.native.stream_join.input_rows import JoinClocks, SideRows, batch_rows_with_clocks, clocks_after
from headrace.engine.native.stream_join.task_spec import JoinTaskSpec
from headrace.engine.native.watermark import NEVER
from headrace.engine.task_report import TaskReport
from headrace.log.kafka.log import KafkaLog
from headrace.log.stored_rows import integer_array
from headrace.plan.chain.records import RawRecord
from headrace.settings import Settings


def read_both(
    spark: SparkSession, log: KafkaLog, work: JoinTaskSpec, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """Reads both topics as a stream of the columns in `work.arrow`."""
    topics = [log.topic(side.source.topic) for side in work.sides]
    rows = stream_messages(spark, log.settings, topics, start, max_rows)
    return rows.mapInArrow(_opening(log.settings, work), from_arrow_schema(work.arrow))


def _opening(settings: Settings, work: JoinTaskSpec) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def opened(messages: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, log = TaskContext.get(), worker_log(settings)
        raw = {side.source.topic for side in work.sides if log.topic(side.source.topic).schema.is_raw}
        taking = JoinTaskReader(work, log, *_moment(context))
        for batch in (batch for found in coalesce_batches(messages) for batch in to_batches(found, log, raw)):
            yield from taking.given(batch)
        taking.leave(str(context.partitionId()) if context else "0")

    return opened


def _moment(context: TaskContext | None) -> tuple[JoinClocks, int]:
    """The times before the batch, and its number."""
    if context is None or (before := context.getLocalProperty(STREAM_TIME_PROPERTY)) is None:
        return JoinClocks(), 0
    return JoinClocks(*json.loads(before)), int(context.getLocalProperty(BATCH_PROPERTY) or 0)


class JoinTaskReader:
    """In a task: rows for Spark, and a note for each side."""

    def __init__(self, work: JoinTaskSpec, log: KafkaLog, before: JoinClocks, number: int) -> None:
        self._work = work
        self._sides = {side.source.topic: (side, log.topic(side.source.topic)) for side in work.sides}
        self._before = before
        self._number = number
        self._reports = [TaskReport(side.side) for side in work.sides]
        self._letters: list[RawRecord] = []

    def given(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        side, topic = self._sides[batch.topic]
        piece = SideRows(
            side.side, with_arrival_order(decode_batch(with_offset_sequence(batch), topic, side), batch, self._number)
        )
        report = self._reports[side.side]
        report.records += len(batch)
        latest = clocks_after([piece], self._work, JoinClocks())[side.side]
        report.time = max((time for time in (report.time, latest) if time not in (None, NEVER)), default=None)
        if len(piece.rows.times):
            yield batch_rows_with_clocks(piece, self._work, self._before)
        self._letters += [report.letter(problem, side.plan) for problem in piece.rows.problems]

    def leave(self, task: str) -> None:
        for report in self._reports:
            letters = [] if report.page else self._letters
            task_notes.write_note(self._work.left.folder, f"{task}-{report.page}", report, letters)


def with_arrival_order(rows: InputRows, batch: Batch, number: int) -> InputRows:
    """Adds the order of arrival: the number of the batch, and the partition and offset."""
    count = len(rows.times)
    rows.columns["offset"] = rows.columns["sequence"]
    rows.columns["sequence"] = integer_array(np.full(count, number))
    rows.columns["partition"] = integer_array(np.full(count, batch.partition))
    return rows


class JoinDriverStreamTime(DriverStreamTime):
    """The stream time is stored for each side."""

    def known(self, kept: Any) -> JoinClocks:
        return JoinClocks() if kept is None else JoinClocks(*kept)

    def reached(self, before: JoinClocks, reports: Sequence[TaskReport]) -> JoinClocks:
        latest = list(before)
        for report in reports:
            latest[report.page] = max(latest[report.page], NEVER if report.time is None else report.time)
        return JoinClocks(*latest)
