"""Maps a log's columns to Spark's: names, types, and batches in both directions.

A query over one topic sees the topic's columns and the log's (`$offset`, `$timestamp` ...). A query over several topics
sees the log's columns, `$topic`, and for each topic one struct column with the topic's name, null in the rows of
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headrace.contracts import SYSTEM_COLUMNS, Batch, Topic

TIME_COLUMNS = ("$timestamp", "$occurred_at", "$sent_at", "$received_at")
_MICROSECONDS = pa.timestamp("us", "UTC")
_PIECE_ROWS, _PIECE_BYTES = 100_000, 32 << 20


def coalesce_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merges the small batches that Spark passes to Python into larger ones: each batch has a fixed cost."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(map(len, pending)) >= _PIECE_ROWS or sum(one.nbytes for one in pending) >= _PIECE_BYTES:
            yield pa.concat_batches(pending)
            pending = []
    if pending:
        yield pa.concat_batches(pending)


def arrow_schema(topics: Sequence[Topic], columns: Iterable[str] | None = None) -> pa.Schema:
    """The columns of a source over these topics, as Arrow types that Spark accepts."""
    fields = [pa.field("$topic", pa.string()), pa.field("$partition", pa.int32())]
    fields += [pa.field(name, _MICROSECONDS if name in TIME_COLUMNS else kind) for name, kind in SYSTEM_COLUMNS.items()]
    if len(topics) == 1:
        fields = [*topics[0].schema.arrow, *fields]
    else:
        fields += [pa.field(topic.name, pa.struct(list(topic.schema.arrow))) for topic in topics]
    names = None if columns is None else set(columns)
    selected = [field for field in fields if names is None or field.name in names]
    return to_arrow_schema(from_arrow_schema(pa.schema(selected)), timezone="UTC")


def spark_schema(topics: Sequence[Topic], columns: Iterable[str] | None = None) -> StructType:
    return from_arrow_schema(arrow_schema(topics, columns))


def to_spark(batch: Batch, topics: Sequence[Topic], schema: pa.Schema) -> pa.RecordBatch:
    """Converts a batch of one topic to rows of the source."""
    (topic,) = (t for t in topics if t.name == batch.topic)
    flat = len(topics) == 1
    return pa.RecordBatch.from_arrays(
        [_column(batch, topic, field, flat).cast(field.type) for field in schema], schema=schema
    )


def _column(batch: Batch, topic: Topic, field: pa.Field, flat: bool) -> pa.Array:
    rows = batch.rows
    if field.name == "$topic":
        return _repeat(pa.array([batch.topic]), len(batch))
    if field.name == "$partition":
        return _repeat(pa.array([batch.partition], pa.int32()), len(batch))
    if field.name in TIME_COLUMNS:
        return pc.multiply(rows.column(field.name), 1000).cast(_MICROSECONDS)
    if flat or field.name in SYSTEM_COLUMNS:
        return rows.column(field.name)
    if field.name == topic.name:
        names = topic.schema.names
        return pa.StructArray.from_arrays([rows.column(name) for name in names], names=list(names))
    return pa.nulls(len(batch), field.type)


def _repeat(one: pa.Array, count: int) -> pa.Array:
    return one.take(pa.array(np.zeros(count, np.int8)))


def from_spark(rows: pa.RecordBatch, topics: Sequence[Topic]) -> list[tuple[Topic, pa.RecordBatch]]:
    """Converts a query's output to rows to append: all of it, or by `$topic` where there are several."""
    if len(topics) == 1:
        return [(topics[0], _topic_rows(rows, topics[0]))]
    parts: list[tuple[Topic, pa.RecordBatch]] = []
    for topic in topics:
        own = rows.filter(pc.equal(rows.column("$topic"), topic.name))
        if own.num_rows:
            parts.append((topic, _topic_rows(_unpacked(own, topic), topic)))
    return parts


def _unpacked(rows: pa.RecordBatch, topic: Topic) -> pa.RecordBatch:
    values = rows.column(topic.name)
    system = [name for name in rows.schema.names if name in SYSTEM_COLUMNS]
    return pa.RecordBatch.from_arrays(
        [*values.flatten(), *(rows.column(name) for name in system)], [*(f.name for f in values.type), *system]
    )


def _topic_rows(rows: pa.RecordBatch, topic: Topic) -> pa.RecordBatch:
    """Only what can be appended: offsets and sequences are assigned by the log, and times are milliseconds there."""
    names = [n for n in rows.schema.names if n not in ("$topic", "$partition", "$offset", "$sequence")]
    columns = [_milliseconds(rows.column(n)) if n in TIME_COLUMNS else rows.column(n) for n in names]
    return pa.RecordBatch.from_arrays(columns, names)


def _milliseconds(times: pa.Array) -> pa.Array:
    if not pa.types.is_timestamp(times.type):
        return times
    return times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
