"""The embedded log as the source of a native query: tasks return rows as columns of a frame, and write notes.

For windows a row needs the stream time of its arrival. That is the latest time among the rows before it, of all
partitions, since the query began. So tasks read spans of the log's order, over all partitions of the topic (see
`ordered_source`).

Ticks count as rows of their time. Where windows are emitted once, a task's last row is a *clock*, which has no group:
it tells Spark how far stream time has advanced (see `compiler`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

from headrace.contracts import Batch, Topic
from headrace.engine.io.embedded_source import Admission, SequenceRange
from headrace.engine.native import task_notes
from headrace.engine.native.input_rows import InputRows, Times, counting_rows, counting_times, decode_batch, validate
from headrace.engine.native.ordered_source import SequenceSpan, SpanReader, read_spans
from headrace.engine.native.partial_aggregation import PartialAggregator
from headrace.engine.native.task_spec import NativeTaskSpec
from headrace.engine.native.watermark import NEVER, WatermarkState, parse_watermark, report_watermark
from headrace.engine.task_report import TaskReport


class NativeReader(SpanReader):
    def __init__(self, options: dict[str, str], topics: Sequence[Topic], columns: Any, spec: NativeTaskSpec) -> None:
        super().__init__(options, topics, columns, spec)
        self.topic = topics[0]
        self._reported_at: int | None = None

    # -- in the driver ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict:
        return {**super().initialOffset(), "time": NEVER, "open": []}

    def latestOffset(self, start: dict, limit: Any) -> dict:
        end = super().latestOffset(start, limit)
        if self.spec.hops is None or end["sequence"] == start["sequence"]:
            return end
        _, watermark = self.spans(start, _watermark_of(start), end["sequence"])
        return {**end, "time": watermark.now, "open": watermark.open}

    def _wait_for_rows(self, after: int, limit: Any) -> int:
        """Windows closed by a batch are emitted in the next, so without rows Spark must get a response at once."""
        if not self.spec.final or self._reported_at == after:
            return super()._wait_for_rows(after, limit)
        self._reported_at = after
        return self._batch_end(after, limit)

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        if self.spec.hops is None:
            return super().partitions(start, end)
        self.check_retention(start["sequence"], start["removed"])
        return self.spans(start, _watermark_of(start), end["sequence"])[0]

    def after_span(self, span: SequenceSpan) -> WatermarkState:
        watermark = span.before
        for partition in range(self.topic.partitions):
            for batch in self.view.scan(self.topic.name, partition, span.after, span.upto):
                watermark = watermark.after_rows(
                    counting_times(decode_batch(batch, self.topic, self.spec), self.spec), self.spec
                )
        for tick in self._ticks(span):
            watermark = watermark.after_tick(latest_time(tick), self.spec)
        return watermark

    def _ticks(self, span: SequenceSpan) -> list[Batch]:
        """The ticks one by one, in order."""
        batches = self.view.scan(self.spec.ticks, 0, span.after, span.upto) if self.spec.ticks else ()
        return [replace(batch, rows=batch.rows.slice(i, 1)) for batch in batches for i in range(len(batch))]

    # -- in a task --------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        before = partition.before if isinstance(partition, SequenceSpan) else WatermarkState()
        return rows_for_spark(self._batches(partition), self.topic, self.spec, before, _note_name(partition))

    def _batches(self, partition: InputPartition) -> Iterator[Batch]:
        if isinstance(partition, SequenceRange):
            return self.view.scan(partition.topic, partition.partition, partition.after, partition.upto)
        assert isinstance(partition, SequenceSpan)
        ticks = self._ticks(partition)
        if self.topic.partitions == 1 and not ticks:
            return self.view.scan(self.topic.name, 0, partition.after, partition.upto)
        return self._with_ticks(ticks, self._in_order(partition))

    def _in_order(self, span: SequenceSpan) -> pa.Table | None:
        """The rows of all partitions in order of arrival."""
        parts = [
            batch.rows
            for partition in range(self.topic.partitions)
            for batch in self.view.scan(self.topic.name, partition, span.after, span.upto)
        ]
        if not parts:
            return None
        table = pa.Table.from_batches(parts)
        return table.take(pc.sort_indices(table["$sequence"])).combine_chunks()

    def _with_ticks(self, ticks: Sequence[Batch], rows: pa.Table | None) -> Iterator[Batch]:
        """Ticks, and the rows between them. Bad times are reported with the partition only if the topic has just
        one.
        """
        partition, done = 0 if self.topic.partitions == 1 else NEVER, 0
        for tick in (*ticks, None):
            if rows is not None:
                end = rows.num_rows if tick is None else _row_index(tick, rows)
                pieces = rows.slice(done, end - done).to_batches()
                yield from (Batch(self.topic.name, partition, piece, 0) for piece in pieces)
                done = end
            if tick is not None:
                yield tick


def _watermark_of(offset: dict) -> WatermarkState:
    return parse_watermark(offset["time"], offset["open"])


def _row_index(tick: Batch, rows: pa.Table) -> int:
    """The position of a tick among the rows."""
    return int(np.searchsorted(rows["$sequence"].to_numpy(), tick.rows.column("$sequence")[0].as_py()))


def rows_for_spark(
    batches: Iterable[Batch], topic: Topic, spec: NativeTaskSpec, before: WatermarkState, name: str
) -> Iterator[pa.RecordBatch]:
    """In a task: converts batches for Spark; at their end writes a note of this name."""
    report, dead_letters, watermark = TaskReport(0), [], before
    convert = _arrow_converter(spec)
    for batch in batches:
        if batch.topic == spec.ticks:
            watermark = watermark.after_tick(latest_time(batch), spec)
            continue
        rows = decode_batch(batch, topic, spec)
        report.records += len(batch)
        # If rows are ordered by time, a row can be late only with regard to the batches before.
        now = (before if spec.by_time else watermark).now
        watermark = watermark.after_rows(_advancing_times(rows, spec), spec)
        rows, _ = validate(rows, spec, now)
        dead_letters += [report.dead_letter(problem, spec.plan) for problem in rows.problems]
        if len(rows.times):
            yield convert(rows)
    if spec.final and watermark.now != NEVER:
        yield _clock(watermark, spec)
    report_watermark(report, spec, before, watermark)
    task_notes.write_note(spec.folder, name, report, dead_letters)


def latest_time(batch: Batch) -> int:
    return pc.max(batch.rows.column("$timestamp")).as_py()


def _advancing_times(rows: InputRows, spec: NativeTaskSpec) -> Times:
    """With windows, only rows that count in them advance stream time."""
    return rows.times if spec.hops is None else counting_times(rows, spec)


def _arrow_converter(spec: NativeTaskSpec) -> Callable[[InputRows], pa.RecordBatch]:
    """Returns the function that converts rows for Spark."""
    schema, add = spec.arrow, spec.partial and PartialAggregator(spec.partial)

    def convert(rows: InputRows) -> pa.RecordBatch:
        if spec.final or add:
            rows = counting_rows(rows, spec)
        columns = add(rows.columns) if add else rows.columns
        if add and spec.final:
            columns["now"] = pa.nulls(len(columns["time"]))  # only clocks have it
        return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)

    return convert


def _clock(watermark: WatermarkState, spec: NativeTaskSpec) -> pa.RecordBatch:
    assert spec.hops is not None
    clock = {"time": watermark.now, "valued": True, "now": spec.hops.closed(watermark.now)}
    return pa.RecordBatch.from_pylist([clock], spec.arrow)


def _note_name(partition: Any) -> str:
    where = f"{partition.partition}-" if isinstance(partition, SequenceRange) else ""
    return f"{where}{partition.after}-{partition.upto}"


def read_rows(
    spark: SparkSession,
    folder: Path,
    topic: str,
    spec: NativeTaskSpec,
    *,
    admission: Admission,
    start: str = "earliest",
) -> DataFrame:
    """Reads the topic as a stream of the columns in `spec.arrow`."""
    topics = [topic, spec.ticks] if spec.ticks else [topic]
    return read_spans(spark, folder, topics, NativeReader, spec, admission=admission, start=start)
