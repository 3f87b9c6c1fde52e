"""Writes the results of a native query to a log: encoded and staged in one Python stage, committed once per batch.

The dead letters of the tasks that read are committed with them. A raw topic gets records in the declared formats; a
topic with a schema gets columns, which Python does not inspect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from headrace.contracts import HEADERS_TYPE, Topic, dead_letter_topic
from headrace.engine.io.columns import from_spark
from headrace.engine.io.payloads import PayloadEncoder, payload_encoder
from headrace.engine.io.row_payloads import ROWS, payload_rows, rows_payload
from headrace.engine.io.sink import STAGED, BatchCommitter, Sink, TopicRows, staged_extents
from headrace.engine.native.header_codec import header_column, unpack_headers
from headrace.engine.native.task_notes import BatchAttempt
from headrace.engine.native.task_spec import NativeTaskSpec
from headrace.engine.native.watermark import DeadlineTracker
from headrace.engine.sparksql.column_types import quote_name
from headrace.engine.sparksql.frames import row_tuples
from headrace.engine.task_report import OnTaskReports, TaskReport
from headrace.plan.chain.records import Encoder, RawRecord
from headrace.plan.steps import Problem


class StreamTimeProvider(Protocol):
    """Provides the tasks of a batch with the stream time before it."""

    def begin(self, spark: SparkSession, batch: int) -> None: ...
    def end(self, batch: int, reports: Sequence[TaskReport]) -> None:
        """Called when the batch is in the log."""
        ...


class SourceStreamTime:
    """The source's offsets contain the stream time."""

    def begin(self, spark: SparkSession, batch: int) -> None:
        pass

    def end(self, batch: int, reports: Sequence[TaskReport]) -> None:
        pass


class NativeSink(Sink):
    """Pass `write` to `foreachBatch`. Results go to the plan's topic, dead letters to its dead-letter topic."""

    def __init__(
        self, committer: BatchCommitter, spec: NativeTaskSpec, stream_time: StreamTimeProvider, on_report: OnTaskReports
    ) -> None:
        self._topic = spec.plan.sink.topic
        typed = not committer.topic(self._topic).schema.is_raw
        topics = [self._topic, dead_letter_topic(self._topic)]
        super().__init__(committer, topics, _columns if typed else RowEncoder(spec))
        self._spec = spec
        self._folder = Path(spec.folder)
        self._stream_time = stream_time
        self._on_report = on_report
        self._deadlines = DeadlineTracker(spec)

    def write(self, rows: DataFrame, batch: int) -> None:
        """Writes a batch, once. A batch that is already in the log is still computed, to produce its state."""
        self._stream_time.begin(rows.sparkSession, batch)
        attempt = BatchAttempt(rows.sparkSession, self._folder)
        staged = order_windows(rows, self._spec).mapInArrow(self.stage(), STAGED).collect()
        notes = attempt.notes()
        self.commit(batch, [*staged, *self._dead_letters([dead_letters for _, dead_letters in notes if dead_letters])])
        reports = [*(report for report, _ in notes), report_of(staged, self._topic)]
        self._stream_time.end(batch, reports)
        self._on_report(batch, self._deadlines.with_deadline(reports))

    def _dead_letters(self, dead_letters: Sequence[bytes]) -> list[tuple[Any, ...]]:
        dead = self._topics[1]
        return staged_extents([(dead, payload_rows(payload)) for payload in dead_letters], self._committer.staging)


def order_windows(rows: DataFrame, spec: NativeTaskSpec) -> DataFrame:
    """Orders windows that are emitted once: for downstream readers time advances."""
    if not spec.final:
        return rows
    names = {name.upper(): name for name in rows.columns}
    start = names.get("WINDOWSTART") or names["WINDOW_START"]  # the topic's column, or the frame's
    return rows.repartition(1).sortWithinPartitions(quote_name(start))


def report_of(topic_counts: Sequence[Any], topic: str) -> TaskReport:
    """Reports the rows that a batch wrote; rows outside the topic could not be written, e.g. for a bad time."""
    good = sum(row.rows for row in topic_counts if row.topic == topic)
    bad = sum(row.rows for row in topic_counts if row.topic != topic)
    return TaskReport(0, written=good, problems={"not-written": bad} if bad else {})


def _columns(rows: pa.RecordBatch, topics: Sequence[Topic]) -> TopicRows:
    at = rows.schema.get_field_index("$headers")
    if at >= 0:
        headers = rows.column(at)
        rows = rows.remove_column(at)
        if headers.null_count < len(headers):
            rows = rows.append_column("$headers", header_column(headers))
    return from_spark(rows, topics[:1])


@dataclass(frozen=True)
class RowEncoder:
    """In a task: encodes rows of a frame as records of a raw topic."""

    spec: NativeTaskSpec

    def __call__(self, rows: pa.RecordBatch, topics: Sequence[Topic]) -> TopicRows:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        encoded = encode_columns(columns, self.spec)
        return self.one_by_one(rows, columns, topics) if encoded is None else [(topics[0], encoded)]

    def one_by_one(self, rows: pa.RecordBatch, columns: dict[str, pa.Array], topics: Sequence[Topic]) -> TopicRows:
        """Encodes row by row: columnar encoding must give the same result."""
        sink, encoder = self.spec.plan.sink, _encoder(self.spec)
        keys, values = (
            row_tuples(columns, "k", sink.relation, "keyed"),
            row_tuples(columns, "v", sink.relation, "valued"),
        )
        headers = columns["headers"].to_pylist() if "headers" in columns else [None] * len(rows)
        events = zip(columns["time"].to_pylist(), keys, values, headers, strict=True)
        encoded = [encoder.encode(event[:3], unpack_headers(event[3])) for event in events]
        report = TaskReport(0)
        parts = (
            (topics[0], [record for record in encoded if isinstance(record, RawRecord)]),
            (
                topics[1],
                [report.dead_letter(problem, self.spec.plan) for problem in encoded if isinstance(problem, Problem)],
            ),
        )
        return [(topic, payload_rows(rows_payload(records))) for topic, records in parts if records]


def encode_columns(columns: Mapping[str, pa.Array], spec: NativeTaskSpec) -> pa.RecordBatch | None:
    """Records for a raw topic; None if formats cannot write columns, or a row must not be written at all."""
    payloads, relation = _payloads(spec), spec.plan.sink.relation
    if payloads is None or (pc.min(columns["time"]).as_py() or 0) < 0:
        return None
    keys = payloads.keys(
        [columns[f"k{i}"] for i in range(len(relation.key))], columns["keyed"], columns.get("window_start")
    )
    values = payloads.values([columns[f"v{i}"] for i in range(len(relation.value))], columns["valued"])
    headers = header_column(columns["headers"]) if "headers" in columns else pa.nulls(len(keys), HEADERS_TYPE)
    return pa.RecordBatch.from_arrays([keys, values, columns["time"], headers], schema=ROWS)


@lru_cache(64)
def _payloads(spec: NativeTaskSpec) -> PayloadEncoder | None:
    return payload_encoder(spec.plan.sink)


@lru_cache(64)
def _encoder(spec: NativeTaskSpec) -> Encoder:
    return Encoder(spec.plan.sink)
