"""The embedded log as the source of two streams that are joined: both topics in one order, at one position.

Tasks read spans of the log's order, both topics at once. What time it was for each side before a span is found when a
batch is cut, and behind the batch it is part of the offset that Spark checkpoints: a replay finds the same. Spark reads
each span twice, once for each side of the join; both times the same note is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.contracts import Batch, Topic
from headrace.engine.native import notes
from headrace.engine.native.join_rows import NEVER, Clocks, Piece, clocks_behind, timed
from headrace.engine.native.joins import JoinWork
from headrace.engine.native.rows import read
from headrace.engine.native.work import Work
from headrace.engine.reports import Report
from headrace.engine.source import HeadraceSource, StreamReader, options, registered
from headrace.plan.chain.records import Raw

_ROWS_PER_SPAN = 250_000


@dataclass
class Span(InputPartition):
    """What one task reads: rows of both topics with `after < sequence <= upto`, and the times before them."""

    after: int
    upto: int
    before: Clocks


@dataclass(frozen=True)
class Taken:
    """What a span gives: rows for Spark, and what is noted of the others."""

    batches: list[pa.RecordBatch]
    report: Report
    letters: list[Raw]


class JoinSource(HeadraceSource):
    work: ClassVar[JoinWork]

    def schema(self) -> StructType:
        return from_arrow_schema(self.work.arrow)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return JoinReader(dict(self.options), self._topics, None, self.work)


class JoinReader(StreamReader):
    def __init__(self, options: dict[str, str], topics: Sequence[Topic], columns: Any, work: JoinWork) -> None:
        super().__init__(options, topics, columns)
        self.work = work
        self.arrow = work.arrow
        self._cut: tuple[tuple[int, Clocks, int], list[Span], Clocks] | None = None

    # -- in the driver ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict:
        return {**super().initialOffset(), "times": list(Clocks())}

    def latestOffset(self, start: dict, limit: Any) -> dict:
        end = super().latestOffset(start, limit)
        if end["sequence"] == start["sequence"]:
            return end
        return {**end, "times": list(self._spans(start, end["sequence"])[1])}

    def partitions(self, start: dict, end: dict) -> Sequence[Span]:
        self.check(start["sequence"], start["removed"])
        return self._spans(start, end["sequence"])[0]

    def _spans(self, start: dict, upto: int) -> tuple[list[Span], Clocks]:
        """The tasks of a batch, and the times behind it. Spark asks for the end and then for the tasks."""
        batch = (start["sequence"], Clocks(*start["times"]), upto)
        if self._cut is None or self._cut[0] != batch:
            spans, (after, clocks, _) = list[Span](), batch
            while after < upto:
                end = min(self.view.cut(self.names, after, _ROWS_PER_SPAN), upto)
                spans.append(Span(after, end, clocks))
                after, clocks = end, self._behind(spans[-1])
            self._cut = batch, spans, clocks
        return self._cut[1], self._cut[2]

    def _behind(self, span: Span) -> Clocks:
        """What moves the time is seen by the key alone."""
        keys = [replace(work, columns=work.groups) for work in self.work.sides]
        return clocks_behind([piece for piece, _ in self._pieces(span, keys)], self.work, span.before)

    # -- in a task --------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        taken = self.taken(partition)
        yield from taken.batches
        notes.leave(self.work.left.folder, f"{partition.after}-{partition.upto}", taken.report, taken.letters)

    def taken(self, span: Span) -> Taken:
        found = list(self._pieces(span, self.work.sides))
        pieces = [piece for piece, _ in found if len(piece.rows.times)]
        batches = timed(pieces, self.work, span.before) if pieces else []
        report, plan = Report(0, sum(count for _, count in found)), self.work.left.plan
        letters = [report.letter(problem, plan) for piece, _ in found for problem in piece.rows.problems]
        latest = max(clocks_behind(pieces, self.work, span.before))
        report.time = None if latest == NEVER else latest
        return Taken(batches, report, letters)

    def _pieces(self, span: Span, sides: Sequence[Work]) -> Iterator[tuple[Piece, int]]:
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
    source = type("JoinSource", (JoinSource,), {"work": work})
    topics = [side.source.topic for side in work.sides]
    reader = spark.readStream.format(registered(spark, source)).options(**options(folder, topics, None, start))
    return reader.option("max_rows", str(max_rows)).load()
