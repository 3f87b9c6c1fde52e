"""The embedded log as the source of two streams that are joined: both topics in one order, at one position.

Tasks read spans of the log's order, both topics at once, and know what time it was for each side (see `spans`). Spark
reads each span twice, once for each side of the join; both times the same note is left.
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
from headrace.engine.native import notes
from headrace.engine.native.join_rows import Clocks, Piece, clocks_behind, timed
from headrace.engine.native.joins import JoinWork
from headrace.engine.native.moments import NEVER
from headrace.engine.native.rows import read
from headrace.engine.native.spans import Span, SpanReader, stream_of
from headrace.engine.native.work import Work
from headrace.engine.reports import Report
from headrace.plan.chain.records import Raw


@dataclass(frozen=True)
class Taken:
    """What a span gives: rows for Spark, and what is noted of the others."""

    batches: list[pa.RecordBatch]
    report: Report
    letters: list[Raw]


class JoinReader(SpanReader[Clocks]):
    work: JoinWork

    # -- in the driver ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict:
        return {**super().initialOffset(), "times": list(Clocks())}

    def latestOffset(self, start: dict, limit: Any) -> dict:
        end = super().latestOffset(start, limit)
        if end["sequence"] == start["sequence"]:
            return end
        return {**end, "times": list(self.spans(start, Clocks(*start["times"]), end["sequence"])[1])}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        self.check(start["sequence"], start["removed"])
        return self.spans(start, Clocks(*start["times"]), end["sequence"])[0]

    def behind(self, span: Span[Clocks]) -> Clocks:
        """What moves the time is seen by the key alone."""
        keys = [replace(work, columns=work.groups) for work in self.work.sides]
        return clocks_behind([piece for piece, _ in self._pieces(span, keys)], self.work, span.before)

    # -- in a task --------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        taken = self.taken(partition)
        yield from taken.batches
        notes.leave(self.work.left.folder, f"{partition.after}-{partition.upto}", taken.report, taken.letters)

    def taken(self, span: Span[Clocks]) -> Taken:
        found = list(self._pieces(span, self.work.sides))
        pieces = [piece for piece, _ in found if len(piece.rows.times)]
        batches = timed(pieces, self.work, span.before) if pieces else []
        report, plan = Report(0, sum(count for _, count in found)), self.work.left.plan
        letters = [report.letter(problem, plan) for piece, _ in found for problem in piece.rows.problems]
        latest = max(clocks_behind(pieces, self.work, span.before))
        report.time = None if latest == NEVER else latest
        return Taken(batches, report, letters)

    def _pieces(self, span: Span[Clocks], sides: Sequence[Work]) -> Iterator[tuple[Piece, int]]:
        """The rows of each partition of both topics, and how many records they were."""
        for work, topic in zip(sides, self.topics, strict=True):
            for partition in range(topic.partitions):
                batches = list(self.view.scan(topic.name, partition, span.after, span.upto))
                if batches:
                    batch = _together(batches)
                    yield Piece(work.side, read(batch, topic, work)), len(batch)


def _together(batches: list[Batch]) -> Batch:
    """Single appends are batches of one row."""
    if len(batches) == 1:
        return batches[0]
    (rows,) = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks().to_batches()
    return replace(batches[-1], rows=rows)


def read_both(
    spark: SparkSession, folder: Path, work: JoinWork, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """Both topics as a stream of the columns that `work.arrow` says."""
    topics = [side.source.topic for side in work.sides]
    return stream_of(spark, folder, topics, JoinReader, work, max_rows=max_rows, start=start)
