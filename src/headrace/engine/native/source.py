"""The embedded log as the source of a native query: rows come as columns of a frame, and tasks leave notes.

For windows a row must know the time of the stream when it arrived. It is the latest time among the rows before it, of
all partitions, since the query began. So tasks read spans of the log's order, over all partitions of the topic; how far
the time had come before a span is found when a batch is cut, and where a batch ends it is part of the offset that Spark
checkpoints: no state is kept for it, and a replay finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from headrace.contracts import Batch, Topic
from headrace.engine.native import notes
from headrace.engine.native.rows import judged, read, time_behind
from headrace.engine.native.work import Work
from headrace.engine.reports import Report
from headrace.engine.source import HeadraceSource, Range, StreamReader, options, registered

_ROWS_PER_SPAN = 250_000
NEVER = -1
"""The time of a stream that has had no row."""


@dataclass
class Span(InputPartition):
    """What one task reads: rows of all partitions with `after < sequence <= upto`; the time before them was `now`."""

    after: int
    upto: int
    now: int


class NativeSource(HeadraceSource):
    work: ClassVar[Work]

    def schema(self) -> StructType:
        return from_arrow_schema(self.work.arrow)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return NativeReader(dict(self.options), self._topics, None, self.work)


class NativeReader(StreamReader):
    def __init__(self, options: dict[str, str], topics: Sequence[Topic], columns: Any, work: Work) -> None:
        super().__init__(options, topics, columns)
        self.topic = topics[0]
        self.work = work
        self.arrow = work.arrow
        self._cut: tuple[tuple[int, int, int], list[Span], int] | None = None

    # -- in the driver ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict:
        return {**super().initialOffset(), "time": NEVER}

    def latestOffset(self, start: dict, limit: Any) -> dict:
        end = super().latestOffset(start, limit)
        if self.work.hops is None or end["sequence"] == start["sequence"]:
            return end
        return {**end, "time": self._spans(start, end["sequence"])[1]}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        if self.work.hops is None:
            return super().partitions(start, end)
        self.check(start["sequence"], start["removed"])
        return self._spans(start, end["sequence"])[0]

    def _spans(self, start: dict, upto: int) -> tuple[list[Span], int]:
        """The tasks of a batch, and the time behind it. Spark asks for the end and then for the tasks."""
        batch = (start["sequence"], start["time"], upto)
        if self._cut is None or self._cut[0] != batch:
            spans, (after, now, _) = list[Span](), batch
            while after < upto:
                end = min(self.view.cut(self.names, after, _ROWS_PER_SPAN), upto)
                spans.append(Span(after, end, now))
                after, now = end, self._time_behind(spans[-1])
            self._cut = batch, spans, now
        return self._cut[1], self._cut[2]

    def _time_behind(self, span: Span) -> int:
        now = span.now
        for partition in range(self.topic.partitions):
            for batch in self.view.scan(self.topic.name, partition, span.after, span.upto):
                now = time_behind(read(batch, self.topic, self.work), self.work, now)
        return now

    # -- in a task --------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        now = partition.now if isinstance(partition, Span) else NEVER
        return given(self._batches(partition), self.topic, self.work, now, _name(partition))

    def _batches(self, partition: InputPartition) -> Iterator[Batch]:
        if isinstance(partition, Range):
            return self.view.scan(partition.topic, partition.partition, partition.after, partition.upto)
        assert isinstance(partition, Span)
        if self.topic.partitions == 1:
            return self.view.scan(self.topic.name, 0, partition.after, partition.upto)
        return self._in_order(partition)

    def _in_order(self, span: Span) -> Iterator[Batch]:
        """The rows of all partitions in order of arrival. Bad times are told of with a partition; here it is lost."""
        parts = [
            batch.rows
            for partition in range(self.topic.partitions)
            for batch in self.view.scan(self.topic.name, partition, span.after, span.upto)
        ]
        if parts:
            table = pa.Table.from_batches(parts)
            (rows,) = table.take(pc.sort_indices(table["$sequence"])).combine_chunks().to_batches()
            yield Batch(self.topic.name, NEVER, rows, 0)


def given(batches: Iterable[Batch], topic: Topic, work: Work, now: int, name: str) -> Iterator[pa.RecordBatch]:
    """In a task: what Spark gets of the batches; at their end a note of this name is left."""
    report, letters, arrow = Report(0), [], work.arrow
    for batch in batches:
        rows = read(batch, topic, work)
        report.records += len(batch)
        if len(rows.times):
            report.time = max(int(rows.times.max()), NEVER if report.time is None else report.time)
        rows, now = judged(rows, work, now)
        letters += [report.letter(problem, work.plan) for problem in rows.problems]
        if len(rows.times):
            columns = [rows.columns[field.name].cast(field.type) for field in arrow]
            yield pa.RecordBatch.from_arrays(columns, schema=arrow)
    notes.leave(work.folder, name, report, letters)


def _name(partition: Any) -> str:
    where = f"{partition.partition}-" if isinstance(partition, Range) else ""
    return f"{where}{partition.after}-{partition.upto}"


def read_rows(
    spark: SparkSession, folder: Path, topic: str, work: Work, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """The topic as a stream of the columns that `work.arrow` says."""
    source = type("NativeSource", (NativeSource,), {"work": work})
    reader = spark.readStream.format(registered(spark, source)).options(**options(folder, [topic], None, start))
    return reader.option("max_rows", str(max_rows)).load()
