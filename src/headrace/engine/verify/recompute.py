"""Recomputes a query as a batch: all that it has read, in the same order, through one chain on Spark.

The result is what the query should have written by then, whatever crashed meanwhile; `verify.compare` compares it with
what the query has written. Input is read part by part, and sorted within each; the chain's state is in the memory of
one worker. A stateless query with a stream as its result runs in several tasks.

Records are decoded one by one, by the formats themselves: otherwise an error in the query's columnar decoding would go
undetected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.contracts import Batch, Topic
from headrace.engine.io.embedded_source import open_view
from headrace.engine.record.chain_operator import Output, gc_paused, run_records
from headrace.engine.record.result_writer import read_written as unpacked_rows
from headrace.engine.record.shuffle.partitioner import partition_batch
from headrace.engine.record.shuffle.payloads import ArrivedRecords, read_payloads
from headrace.engine.record.task_spec import RecordTaskSpec
from headrace.engine.task_report import TaskReport
from headrace.engine.verify.position import OffsetRange
from headrace.log.stored_rows import prepare_rows
from headrace.plan.steps import Store
from headrace.settings import Settings

RESULTS = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("time", pa.int64()), ("at", pa.int64())])
"""What is, or should be, in the sink's topic; of one key, a higher `at` is later."""
_RESULTS = from_arrow_schema(RESULTS)

ReadPart = Sequence[OffsetRange]


@dataclass(frozen=True)
class LogReader:
    """What a task needs to read parts of a log; `folder` is that of an embedded one."""

    settings: Settings
    folder: str | None = None
    ends: Mapping[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    """On Kafka: where each batch of the query ended."""
    by_offset: bool = False

    def batches(self, piece: OffsetRange) -> Iterator[Batch]:
        if self.folder is not None:
            yield from open_view(self.folder).scan(*piece)
            return
        from headrace.engine.io.kafka_source import worker_log

        log, at = worker_log(self.settings), piece.start
        while at < piece.end:
            batch = log.read(piece.topic, piece.partition, at, max_records=min(piece.end - at, 10_000))
            inside = pc.less(batch.rows.column("$offset"), piece.end)
            yield replace(batch, rows=batch.rows.filter(inside))
            at = batch.next_offset

    def with_sequences(self, batch: Batch) -> Batch:
        """Assigns sequences on Kafka, where rows have none: ordered by the query's batches, and within one by time.

        Of a stateless query, Spark's own operators keep the order of a partition.
        """
        if self.folder is not None:
            return batch
        offsets = batch.rows.column("$offset")
        if not self.by_offset:
            ends = np.array(self.ends[batch.topic, batch.partition])
            offsets = pa.array(np.searchsorted(ends, offsets.to_numpy(), "right"), pa.int64())
        at = batch.rows.schema.get_field_index("$sequence")
        return replace(batch, rows=batch.rows.set_column(at, "$sequence", offsets))


def expected_results(
    spark: SparkSession,
    log_reader: LogReader,
    parts: Sequence[ReadPart],
    spec: RecordTaskSpec,
    sink: Topic,
    *,
    independent: bool,
) -> DataFrame:
    """What should be in the sink's topic, as RESULTS; `independent` if each record is."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        requested = (parts[number] for batch in batches for number in batch.column("id").to_pylist())
        return _run_parts(log_reader, requested, spec, sink)

    tasks = min(len(parts), spark.sparkContext.defaultParallelism) if independent else 1
    numbers = spark.range(len(parts), numPartitions=1).repartition(max(tasks, 1)).sortWithinPartitions("id")
    return numbers.mapInArrow(run, _RESULTS)


def actual_results(spark: SparkSession, log_reader: LogReader, pieces: Sequence[OffsetRange], sink: Topic) -> DataFrame:
    """What is in the sink's topic, as RESULTS."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column("id").to_pylist()):
            for batch in log_reader.batches(pieces[number]):
                at = batch.rows.column("$offset" if log_reader.folder is None else "$sequence")
                yield _results(batch.rows, sink, at)

    tasks = max(1, min(len(pieces), 2 * spark.sparkContext.defaultParallelism))
    return spark.range(len(pieces), numPartitions=1).repartition(tasks).mapInArrow(read, _RESULTS)


# -- in a worker ----------------------------------------------------------------------------------------------------


def _run_parts(
    log_reader: LogReader, parts: Iterator[ReadPart], spec: RecordTaskSpec, sink: Topic
) -> Iterator[pa.RecordBatch]:
    """The results for the sink's topic, as RESULTS."""
    count = 0
    for topic, payload in recompute_parts(log_reader, parts, spec):
        if topic == sink.name:
            rows = prepare_rows(unpacked_rows(payload, sink), sink, 0)
            yield _results(rows, sink, pa.array(np.arange(count, count + rows.num_rows)))
            count += rows.num_rows


def recompute_parts(log_reader: LogReader, parts: Iterable[ReadPart], spec: RecordTaskSpec) -> Iterator[Output]:
    """Runs parts through one chain; yields the rows that it writes, as payloads with their topics."""
    stores: defaultdict[str, Store] = defaultdict(dict)
    for part in parts:
        with gc_paused():
            output = run_records(spec, _read_part(log_reader, part, spec), stores.__getitem__, TaskReport(0))
        yield from output


def _read_part(log_reader: LogReader, part: ReadPart, spec: RecordTaskSpec) -> ArrivedRecords:
    batches = (log_reader.with_sequences(batch) for piece in part for batch in log_reader.batches(piece) if len(batch))
    return read_payloads(
        (data for batch in batches for data in partition_batch(batch, spec).column("payload").to_pylist()), spec
    )


def _results(rows: pa.RecordBatch, topic: Topic, at: pa.Array) -> pa.RecordBatch:
    time = rows.column("$timestamp")
    if topic.schema.is_raw:
        return pa.RecordBatch.from_arrays([rows.column("key"), rows.column("value"), time, at], schema=RESULTS)
    keys, values = (_row_texts(rows, names) for names in (topic.schema.key, topic.schema.names))
    if "$deleted" in rows.schema.names:
        values = pc.if_else(pc.fill_null(rows.column("$deleted"), False), pa.scalar(None, pa.binary()), values)
    return pa.RecordBatch.from_arrays([keys, values, time, at], schema=RESULTS)


def _row_texts(rows: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """Columns as one text: texts are equal if and only if the columns are; -0.0 is not 0.0, and NaN is NaN."""
    columns = [rows.column(name).to_pylist() for name in names]
    texts = [repr(dict(zip(names, row, strict=True))).encode() for row in zip(*columns, strict=True)]
    return pa.array(texts if names else [None] * rows.num_rows, pa.binary())
