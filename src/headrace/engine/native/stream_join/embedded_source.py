"""The embedded log as the source of two joined streams: both topics in one order, at one position.

Tasks read spans of the log's order, both topics at once, with the stream time of each side (see `ordered_source`).
Spark reads each span twice, once for each side of the join; the same note is written both times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

from headrace.contracts import Batch
from headrace.engine.native import task_notes
from headrace.engine.native.input_rows import decode_batch
from headrace.engine.native.ordered_source import SequenceSpan, SpanReader, read_spans
from headrace.engine.native.stream_join.input_rows import JoinClocks, SideRows, clocks_after, rows_with_clocks
from headrace.engine.native.stream_join.task_spec import JoinTaskSpec
from headrace.engine.native.task_spec import NativeTaskSpec
from headrace.engine.native.watermark import NEVER
from headrace.engine.task_report import TaskReport
from headrace.plan.chain.records import RawRecord


@dataclass(frozen=True)
class SpanResult:
    """The result of a span: rows for Spark, and the report and dead letters of the others."""

    batches: list[pa.RecordBatch]
    report: TaskReport
    letters: list[RawRecord]


class JoinReader(SpanReader[JoinClocks]):
    work: JoinTaskSpec

    # -- in the driver ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict:
        return {**super().initialOffset(), "times": list(JoinClocks())}

    def latestOffset(self, start: dict, limit: Any) -> dict:
        end = super().latestOffset(start, limit)
        if end["sequence"] == start["sequence"]:
            return end
        return {**end, "times": list(self.spans(start, JoinClocks(*start["times"]), end["sequence"])[1])}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        self.check(start["sequence"], start["removed"])
        return self.spans(start, JoinClocks(*start["times"]), end["sequence"])[0]

    def behind(self, span: SequenceSpan[JoinClocks]) -> JoinClocks:
        """Which rows advance stream time depends on the key alone."""
        keys = [replace(work, columns=work.groups) for work in self.work.sides]
        return clocks_after([piece for piece, _ in self._pieces(span, keys)], self.work, span.before)

    # -- in a task --------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SequenceSpan)
        taken = self.taken(partition)
        yield from taken.batches
        task_notes.write_note(self.work.left.folder, f"{partition.after}-{partition.upto}", taken.report, taken.letters)

    def taken(self, span: SequenceSpan[JoinClocks]) -> SpanResult:
        found = list(self._pieces(span, self.work.sides))
        pieces = [piece for piece, _ in found if len(piece.rows.times)]
        batches = rows_with_clocks(pieces, self.work, span.before) if pieces else []
        report, plan = TaskReport(0, sum(count for _, count in found)), self.work.left.plan
        letters = [report.letter(problem, plan) for piece, _ in found for problem in piece.rows.problems]
        latest = max(clocks_after(pieces, self.work, span.before))
        report.time = None if latest == NEVER else latest
        return SpanResult(batches, report, letters)

    def _pieces(
        self, span: SequenceSpan[JoinClocks], sides: Sequence[NativeTaskSpec]
    ) -> Iterator[tuple[SideRows, int]]:
        """The rows of each partition of both topics, and their number of records."""
        for work, topic in zip(sides, self.topics, strict=True):
            for partition in range(topic.partitions):
                batches = list(self.view.scan(topic.name, partition, span.after, span.upto))
                if batches:
                    batch = _together(batches)
                    yield SideRows(work.side, decode_batch(batch, topic, work)), len(batch)


def _together(batches: list[Batch]) -> Batch:
    """Merges batches: single appends are batches of one row."""
    if len(batches) == 1:
        return batches[0]
    (rows,) = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks().to_batches()
    return replace(batches[-1], rows=rows)


def read_both(
    spark: SparkSession, folder: Path, work: JoinTaskSpec, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """Reads both topics as a stream of the columns in `work.arrow`."""
    topics = [side.source.topic for side in work.sides]
    return read_spans(spark, folder, topics, JoinReader, work, max_rows=max_rows, start=start)
