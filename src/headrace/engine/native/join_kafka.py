"""Kafka under two streams that are joined: read by Spark's connector as one source.

Rows of a batch are in order of their times, those of one time by topic (see `kafka_source`). So within a batch no row
is late, and none has been let go when a partner comes, as partners are less far apart than rows are held: what counts
is the time of each side before the batch. It is kept beside the checkpoint, as for windows.
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
from headrace.engine.columns import gathered
from headrace.engine.kafka_rows import batches_of
from headrace.engine.kafka_source import streamed, worker_log
from headrace.engine.native import notes
from headrace.engine.native.join_rows import Clocks, Piece, clocks_behind, in_batch
from headrace.engine.native.joins import JoinWork
from headrace.engine.native.kafka import BATCH, BEFORE, ToldByDriver, sequenced
from headrace.engine.native.moments import NEVER
from headrace.engine.native.rows import Rows, read
from headrace.engine.reports import Report
from headrace.log.kafka.log import KafkaLog
from headrace.log.rows import integers
from headrace.plan.chain.records import Raw
from headrace.settings import Settings


def read_both(
    spark: SparkSession, log: KafkaLog, work: JoinWork, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """Both topics as a stream of the columns that `work.arrow` says."""
    topics = [log.topic(side.source.topic) for side in work.sides]
    rows = streamed(spark, log.settings, topics, start, max_rows)
    return rows.mapInArrow(_opening(log.settings, work), from_arrow_schema(work.arrow))


def _opening(settings: Settings, work: JoinWork) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def opened(messages: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, log = TaskContext.get(), worker_log(settings)
        raw = {side.source.topic for side in work.sides if log.topic(side.source.topic).schema.is_raw}
        taking = Taking(work, log, *_moment(context))
        for batch in (batch for found in gathered(messages) for batch in batches_of(found, log, raw)):
            yield from taking.given(batch)
        taking.leave(str(context.partitionId()) if context else "0")

    return opened


def _moment(context: TaskContext | None) -> tuple[Clocks, int]:
    """The times before the batch, and its number."""
    if context is None or (before := context.getLocalProperty(BEFORE)) is None:
        return Clocks(), 0
    return Clocks(*json.loads(before)), int(context.getLocalProperty(BATCH) or 0)


class Taking:
    """In a task: rows for Spark, and a note of each side."""

    def __init__(self, work: JoinWork, log: KafkaLog, before: Clocks, number: int) -> None:
        self._work = work
        self._sides = {side.source.topic: (side, log.topic(side.source.topic)) for side in work.sides}
        self._before = before
        self._number = number
        self._reports = [Report(side.side) for side in work.sides]
        self._letters: list[Raw] = []

    def given(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        side, topic = self._sides[batch.topic]
        piece = Piece(side.side, placed(read(sequenced(batch), topic, side), batch, self._number))
        report = self._reports[side.side]
        report.records += len(batch)
        latest = clocks_behind([piece], self._work, Clocks())[side.side]
        report.time = max((time for time in (report.time, latest) if time not in (None, NEVER)), default=None)
        if len(piece.rows.times):
            yield in_batch(piece, self._work, self._before)
        self._letters += [report.letter(problem, side.plan) for problem in piece.rows.problems]

    def leave(self, task: str) -> None:
        for report in self._reports:
            letters = [] if report.page else self._letters
            notes.leave(self._work.left.folder, f"{task}-{report.page}", report, letters)


def placed(rows: Rows, batch: Batch, number: int) -> Rows:
    """With what tells the order of arrival: the number of their batch, and where they lie in the topic."""
    count = len(rows.times)
    rows.columns["offset"] = rows.columns["sequence"]
    rows.columns["sequence"] = integers(np.full(count, number))
    rows.columns["partition"] = integers(np.full(count, batch.partition))
    return rows


class BothToldByDriver(ToldByDriver):
    """As for other queries; the time of the stream is that of each side."""

    def known(self, kept: Any) -> Clocks:
        return Clocks() if kept is None else Clocks(*kept)

    def reached(self, before: Clocks, reports: Sequence[Report]) -> Clocks:
        latest = list(before)
        for report in reports:
            latest[report.page] = max(latest[report.page], NEVER if report.time is None else report.time)
        return Clocks(*latest)
