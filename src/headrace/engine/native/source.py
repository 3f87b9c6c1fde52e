"""The embedded log as the source of a native query: rows come as columns of a frame, and tasks leave notes.

For windows a row must know the time of the stream when it arrived. It is the latest time among the rows before it, of
all partitions, since the query began. So tasks read spans of the log's order, over all partitions of the topic (see
`spans`).

Ticks count as rows of their time. Where windows come out once, a task's last row is a *clock*, which has no group: by
it Spark learns how far the stream has come (see `flow`).
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
from headrace.engine.native import notes
from headrace.engine.native.moments import NEVER, Moment, moment, note
from headrace.engine.native.partials import Adder
from headrace.engine.native.rows import Rows, Times, counted, judged, read, times_that_count
from headrace.engine.native.spans import Span, SpanReader, stream_of
from headrace.engine.native.work import Work
from headrace.engine.reports import Report
from headrace.engine.source import Range


class NativeReader(SpanReader[Moment]):
    def __init__(self, options: dict[str, str], topics: Sequence[Topic], columns: Any, work: Work) -> None:
        super().__init__(options, topics, columns, work)
        self.topic = topics[0]
        self._told: int | None = None

    # -- in the driver ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict:
        return {**super().initialOffset(), "time": NEVER, "open": []}

    def latestOffset(self, start: dict, limit: Any) -> dict:
        end = super().latestOffset(start, limit)
        if self.work.hops is None or end["sequence"] == start["sequence"]:
            return end
        _, behind = self.spans(start, _reached(start), end["sequence"])
        return {**end, "time": behind.now, "open": behind.open}

    def _awaited(self, after: int, limit: Any) -> int:
        """What a batch has closed goes out in the next, for which Spark must hear at once if there are no rows."""
        if not self.work.final or self._told == after:
            return super()._awaited(after, limit)
        self._told = after
        return self._upto(after, limit)

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        if self.work.hops is None:
            return super().partitions(start, end)
        self.check(start["sequence"], start["removed"])
        return self.spans(start, _reached(start), end["sequence"])[0]

    def behind(self, span: Span[Moment]) -> Moment:
        reached = span.before
        for partition in range(self.topic.partitions):
            for batch in self.view.scan(self.topic.name, partition, span.after, span.upto):
                reached = reached.met(times_that_count(read(batch, self.topic, self.work), self.work), self.work)
        for tick in self._ticks(span):
            reached = reached.ticked(latest_time(tick), self.work)
        return reached

    def _ticks(self, span: Span[Moment]) -> list[Batch]:
        """One by one, in order."""
        found = self.view.scan(self.work.ticks, 0, span.after, span.upto) if self.work.ticks else ()
        return [replace(batch, rows=batch.rows.slice(i, 1)) for batch in found for i in range(len(batch))]

    # -- in a task --------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        before = partition.before if isinstance(partition, Span) else Moment()
        return given(self._batches(partition), self.topic, self.work, before, _name(partition))

    def _batches(self, partition: InputPartition) -> Iterator[Batch]:
        if isinstance(partition, Range):
            return self.view.scan(partition.topic, partition.partition, partition.after, partition.upto)
        assert isinstance(partition, Span)
        ticks = self._ticks(partition)
        if self.topic.partitions == 1 and not ticks:
            return self.view.scan(self.topic.name, 0, partition.after, partition.upto)
        return self._between(ticks, self._in_order(partition))

    def _in_order(self, span: Span[Moment]) -> pa.Table | None:
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

    def _between(self, ticks: Sequence[Batch], rows: pa.Table | None) -> Iterator[Batch]:
        """Ticks, and the rows between them. Bad times are told of with a partition; of several it is lost."""
        partition, done = 0 if self.topic.partitions == 1 else NEVER, 0
        for tick in (*ticks, None):
            if rows is not None:
                end = rows.num_rows if tick is None else _place(tick, rows)
                pieces = rows.slice(done, end - done).to_batches()
                yield from (Batch(self.topic.name, partition, piece, 0) for piece in pieces)
                done = end
            if tick is not None:
                yield tick


def _reached(offset: dict) -> Moment:
    return moment(offset["time"], offset["open"])


def _place(tick: Batch, rows: pa.Table) -> int:
    """Where among the rows it came."""
    return int(np.searchsorted(rows["$sequence"].to_numpy(), tick.rows.column("$sequence")[0].as_py()))


def given(batches: Iterable[Batch], topic: Topic, work: Work, before: Moment, name: str) -> Iterator[pa.RecordBatch]:
    """In a task: what Spark gets of the batches; at their end a note of this name is left."""
    report, letters, behind = Report(0), [], before
    give = _giving(work)
    for batch in batches:
        if batch.topic == work.ticks:
            behind = behind.ticked(latest_time(batch), work)
            continue
        rows = read(batch, topic, work)
        report.records += len(batch)
        # In order of their times, rows are late for what came before all of them only.
        now = (before if work.by_time else behind).now
        behind = behind.met(_moving(rows, work), work)
        rows, _ = judged(rows, work, now)
        letters += [report.letter(problem, work.plan) for problem in rows.problems]
        if len(rows.times):
            yield give(rows)
    if work.final and behind.now != NEVER:
        yield _clock(behind, work)
    note(report, work, before, behind)
    notes.leave(work.folder, name, report, letters)


def latest_time(batch: Batch) -> int:
    return pc.max(batch.rows.column("$timestamp")).as_py()


def _moving(rows: Rows, work: Work) -> Times:
    """With windows, only rows that count in them move the time."""
    return rows.times if work.hops is None else times_that_count(rows, work)


def _giving(work: Work) -> Callable[[Rows], pa.RecordBatch]:
    """What makes of rows what Spark gets."""
    schema, add = work.arrow, work.partial and Adder(work.partial)

    def give(rows: Rows) -> pa.RecordBatch:
        if work.final or add:
            rows = counted(rows, work)
        columns = add(rows.columns) if add else rows.columns
        if add and work.final:
            columns["now"] = pa.nulls(len(columns["time"]))  # only clocks tell it
        return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)

    return give


def _clock(behind: Moment, work: Work) -> pa.RecordBatch:
    assert work.hops is not None
    known = {"time": behind.now, "valued": True, "now": work.hops.closed(behind.now)}
    return pa.RecordBatch.from_pylist([known], work.arrow)


def _name(partition: Any) -> str:
    where = f"{partition.partition}-" if isinstance(partition, Range) else ""
    return f"{where}{partition.after}-{partition.upto}"


def read_rows(
    spark: SparkSession, folder: Path, topic: str, work: Work, *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """The topic as a stream of the columns that `work.arrow` says."""
    topics = [topic, work.ticks] if work.ticks else [topic]
    return stream_of(spark, folder, topics, NativeReader, work, max_rows=max_rows, start=start)
