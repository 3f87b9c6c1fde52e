"""Rows on their way into a log and out of it: the same for both logs.

`prepare_rows` makes a caller's rows fit the topic (columns, types, times, sizes) or reports what does not fit;
`split_by_partition` distributes rows to partitions; `conform_rows` converts stored rows, perhaps of an older schema, to
the topic's current schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import HEADERS_TYPE, SYSTEM_COLUMNS, Topic
from headrace.errors import PartitionConflict, RecordTooLarge, UnknownPartition, WrongType, suggestion
from headrace.log.partitioners import key_bytes, murmur2_of, partitioner
from headrace.log.row_sizes import row_sizes
from headrace.record import Record
from headrace.schema import Schema, type_name

CLIENT_COLUMNS = ("$timestamp", "$headers", "$deleted", "$occurred_at", "$sent_at", "$received_at")


def from_records(records: Sequence[Record]) -> pa.RecordBatch:
    """Rows of a raw topic. Columns that no record uses are left out."""
    columns: dict[str, pa.Array] = {
        "key": binary_array([r.key for r in records]),
        "value": binary_array([r.value for r in records]),
    }
    if any(r.headers for r in records):
        columns["$headers"] = pa.array(
            [[{"name": n, "value": v} for n, v in r.headers] or None for r in records], HEADERS_TYPE
        )
    for name in ("occurred_at", "sent_at", "received_at"):
        times = [getattr(r, name) for r in records]
        if any(t is not None for t in times):
            columns[f"${name}"] = pa.array(times, pa.int64())
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def binary_array(values: Sequence[bytes | None]) -> pa.Array:
    """Same as `pa.array(values, pa.binary())`, whose first call takes a second because it imports pandas."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) if value else 0 for value in values], out=offsets[1:])
    valid = np.array([value is not None for value in values], bool)
    mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(b"".join(value for value in values if value))
    return pa.Array.from_buffers(pa.binary(), len(values), [mask, pa.py_buffer(offsets), data])


def prepare_rows(rows: pa.RecordBatch | Sequence[Record], topic: Topic, now: int) -> pa.RecordBatch:
    """Rows as the topic stores them: its columns in order, then `$timestamp`, then the system columns in use."""
    batch: pa.RecordBatch = rows if isinstance(rows, pa.RecordBatch) else from_records(rows)
    schema = topic.schema
    if batch.schema.equals(schema.arrow):  # the common case: nothing to check
        columns = [*batch.columns, _repeat(now, batch.num_rows)]
        prepared = pa.RecordBatch.from_arrays(columns, [*schema.names, "$timestamp"])
    else:
        prepared = _fitted(batch, topic, now)
    _check_sizes(prepared, topic)
    return prepared


def _fitted(rows: pa.RecordBatch, topic: Topic, now: int) -> pa.RecordBatch:
    schema = topic.schema
    for name in rows.schema.names:
        if name not in schema and name not in CLIENT_COLUMNS:
            raise WrongType(
                f'topic "{topic.name}" has no column "{name}"',
                fix=suggestion(name, schema.names, f"columns are: {', '.join(schema.names)}"),
            )
    if len(set(rows.schema.names)) < len(rows.schema.names):
        raise WrongType(f'rows for topic "{topic.name}" have the same column twice', fix="use each column once")
    names: list[str] = []
    columns: list[pa.Array] = []
    for field in schema.fields:
        names.append(field.name)
        columns.append(_column(rows, field.name, field.type, field.default, topic))
    for name, column in _system_columns(rows, topic, now).items():
        names.append(name)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names)


def _column(rows: pa.RecordBatch, name: str, kind: pa.DataType, default: object, topic: Topic) -> pa.Array:
    at = rows.schema.get_field_index(name)
    if at < 0:
        return pa.repeat(pa.scalar(default, kind), rows.num_rows)
    return _cast(rows.column(at), name, kind, topic)


def _cast(column: pa.Array, name: str, kind: pa.DataType, topic: Topic) -> pa.Array:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise WrongType(
            f'column "{name}" of topic "{topic.name}" has type {type_name(kind)}, got {column.type}: {error}',
            fix=f"convert the values to {type_name(kind)}",
        ) from error


def _system_columns(rows: pa.RecordBatch, topic: Topic, now: int) -> dict[str, pa.Array]:
    columns = {
        name: _cast(rows.column(name), name, SYSTEM_COLUMNS[name], topic)
        for name in CLIENT_COLUMNS
        if name in rows.schema.names and rows.column(name).null_count < rows.num_rows
    }
    if not columns:
        return {"$timestamp": _repeat(now, rows.num_rows)}
    received = pc.fill_null(columns["$received_at"], now) if "$received_at" in columns else pa.scalar(now)
    event = _event_times(columns, received)
    time = pc.coalesce(columns["$timestamp"], event) if "$timestamp" in columns else event
    if not isinstance(time, pa.Array):
        time = _repeat(now, rows.num_rows)
    if "$occurred_at" in columns or "$sent_at" in columns:
        columns["$received_at"] = received if isinstance(received, pa.Array) else _repeat(now, rows.num_rows)
    columns.pop("$timestamp", None)
    return {"$timestamp": time, **columns}


def integer_values(column: pa.Array) -> npt.NDArray[np.int64]:
    """A column of integers without nulls as an array, without copying (and without importing pandas)."""
    return np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8)


def _event_times(columns: dict[str, pa.Array], received: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """`record.event_time` for all rows at once."""
    if "$occurred_at" not in columns:
        return received
    occurred = columns["$occurred_at"]
    if "$sent_at" not in columns:
        return pc.coalesce(occurred, received)
    corrected = pc.add(occurred, pc.subtract(received, columns["$sent_at"]))
    return pc.coalesce(corrected, occurred, received)


def _repeat(value: int, count: int) -> pa.Array:
    return integer_array(np.full(count, value, np.int64))


def integer_array(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Numbers as a column, without copying them (and, like `binary_array`, without importing pandas)."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _check_sizes(rows: pa.RecordBatch, topic: Topic) -> None:
    limit = topic.spec.max_record_bytes
    if rows.nbytes <= limit:
        return
    counted = [rows.column(name) for name in (*topic.schema.names, "$headers") if name in rows.schema.names]
    sizes = row_sizes(counted, rows.num_rows)
    worst = int(np.argmax(sizes)) if rows.num_rows else 0
    if rows.num_rows and sizes[worst] > limit:
        raise RecordTooLarge(
            f'record {worst} for topic "{topic.name}" has {sizes[worst]} bytes, more than {limit}',
            fix=f"send smaller records, or: headrace topic alter {topic.name} --max-record-bytes {sizes[worst]}",
        )


def split_by_partition(
    rows: pa.RecordBatch, topic: Topic, partition: int | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Prepared rows by partition, each part in the order given."""
    count = topic.partitions
    if partition is not None and not 0 <= partition < count:
        raise UnknownPartition(
            f'topic "{topic.name}" has no partition {partition}', fix=f"its partitions are 0 to {count - 1}"
        )
    if rows.num_rows == 0:
        return
    if count == 1:
        yield 0, rows
        return
    if partition is not None:
        if topic.spec.partitioner == "hash":
            _check_conflict(rows, topic, partition)
        yield partition, rows
        return
    numbers = partitioner(topic.spec.partitioner)(rows, topic.schema, count)
    if rows.num_rows == 1:
        yield int(numbers[0]), rows
        return
    order = np.argsort(numbers, kind="stable")
    ordered = rows.take(pa.array(order))
    distinct, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:], rows.num_rows]
    for number, start, end in zip(distinct, starts, ends, strict=True):
        yield int(number), ordered.slice(int(start), int(end - start))


def single_partition(record: Record, topic: Topic, partition: int | None) -> int | None:
    """The partition of a single record, for the simple cases; None: let `split_by_partition` decide or fail."""
    if topic.partitions == 1:
        return 0 if partition in (None, 0) else None
    if partition is not None or record.key is None or topic.spec.partitioner != "hash":
        return None
    return (murmur2_of(record.key) & 0x7FFFFFFF) % topic.partitions


def _check_conflict(rows: pa.RecordBatch, topic: Topic, partition: int) -> None:
    if not topic.schema.key:
        return
    keyed = key_bytes(rows, topic.schema).is_valid()
    numbers = partitioner("hash")(rows, topic.schema, topic.partitions)
    wrong = np.flatnonzero((numbers != partition) & keyed.to_numpy(zero_copy_only=False))
    if len(wrong):
        row = int(wrong[0])
        raise PartitionConflict(
            f'record {row} for topic "{topic.name}" names partition {partition}, '
            f"but its key belongs to partition {numbers[row]}",
            fix="omit the partition, or create the topic with --partitioner round-robin",
        )


@lru_cache(512)
def read_schema(schema: Schema) -> pa.Schema:
    """Columns of a batch as it is read."""
    return pa.schema([*schema.arrow, *(pa.field(name, kind) for name, kind in SYSTEM_COLUMNS.items())])


def conform_rows(stored: pa.RecordBatch, schema: Schema) -> list[pa.Array]:
    """The topic's columns and the system columns of stored rows, converted to the current schema."""
    columns: list[pa.Array] = []
    for field in schema.fields:
        columns.append(_as(stored, field.name, field.type, field.default))
    columns.extend(_as(stored, name, SYSTEM_COLUMNS[name], None) for name in CLIENT_COLUMNS)
    return columns


def _as(stored: pa.RecordBatch, name: str, kind: pa.DataType, default: object) -> pa.Array:
    at = stored.schema.get_field_index(name)
    if at < 0:
        if default is None:
            return pa.nulls(stored.num_rows, kind)
        return pa.repeat(pa.scalar(default, kind), stored.num_rows)
    column = stored.column(at)
    return column if column.type == kind else widen_column(column, kind)


def widen_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast to a type that `schema.evolve` allows; structs gain the missing fields."""
    if column.offset:
        column = column.take(pa.array(np.arange(len(column))))  # Arrow cannot build nested arrays from slices
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        have = {f.name: i for i, f in enumerate(column.type)}
        parts = [
            widen_column(column.field(have[f.name]), f.type) if f.name in have else pa.nulls(len(column), f.type)
            for f in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(column.type) and column.type.value_type != kind.value_type:
        values = widen_column(column.values, kind.value_type)
        return pa.ListArray.from_arrays(
            column.offsets, values, kind, mask=column.is_null() if column.null_count else None
        )
    return column.cast(kind)
