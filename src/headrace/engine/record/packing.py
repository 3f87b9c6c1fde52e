"""Rows on their way between Spark's stages, packed: one row of Spark holds all rows of a page as one Arrow batch.

Spark hands rows to a stateful Python operator one by one; packed, a page of 10,000 records is one of them. What goes
in are `RECORDS`; what comes out are rows of topics, as the log takes them, and a report about the page's batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import HEADERS_TYPE, Batch
from headrace.plan.chain.records import Headers, Raw

RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("sequence", pa.int64()),
        ("time", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
"""Records of the topics that a query reads. `sequence` is their place in the order of arrival."""

PACKED = pa.schema([("page", pa.int32()), ("payload", pa.binary())])

ROWS = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("$timestamp", pa.int64()), ("$headers", HEADERS_TYPE)])
"""Rows for a raw topic."""

Placed = tuple[int, str, Raw]
"""Sequence, topic and record."""


def records_of(batch: Batch) -> pa.RecordBatch:
    """A batch of a raw topic as RECORDS."""
    rows, count = batch.rows, len(batch)
    return pa.RecordBatch.from_arrays(
        [
            _repeat(batch.topic, pa.string(), count),
            _repeat(batch.partition, pa.int32(), count),
            *(rows.column(name) for name in ("$offset", "$sequence", "$timestamp", "key", "value", "$headers")),
        ],
        schema=RECORDS,
    )


def _repeat(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.array([value], kind).take(pa.array(np.zeros(count, np.int8)))


def packed(records: pa.RecordBatch, pages: Sequence[int]) -> pa.RecordBatch:
    """One row for each page that has records; `pages` tells it for each record."""
    numbers = np.asarray(pages, np.int32)
    parts = [(int(page), records.filter(pa.array(numbers == page))) for page in np.unique(numbers)]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([page for page, _ in parts], pa.int32()),
            pa.array([part.serialize().to_pybytes() for _, part in parts], pa.binary()),
        ],
        schema=PACKED,
    )


def unpacked(payloads: Iterable[bytes]) -> list[Placed]:
    """The records of a page, in order of arrival."""
    batches = [pa.ipc.read_record_batch(pa.py_buffer(payload), RECORDS) for payload in payloads]
    table = pa.Table.from_batches(batches, RECORDS)
    ordered = table.take(pc.sort_indices(table["sequence"]))
    columns = {name: ordered[name].to_pylist() for name in RECORDS.names}
    return list(_placed(columns))


def _placed(columns: dict[str, list[Any]]) -> Iterator[Placed]:
    for topic, partition, offset, sequence, time, key, value, headers in zip(*columns.values(), strict=True):
        yield sequence, topic, Raw(key, value, time, _headers(headers), partition, offset)


def _headers(items: list[dict[str, Any]] | None) -> Headers:
    return tuple((item["name"], item["value"]) for item in items) if items else ()


def packed_rows(records: Sequence[Raw]) -> bytes:
    """Records for a raw topic, as one payload."""
    columns = [
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([record.time for record in records], pa.int64()),
        pa.array([_items(record.headers) for record in records], HEADERS_TYPE),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS).serialize().to_pybytes()


def _items(headers: Headers) -> list[dict[str, Any]] | None:
    return [{"name": name, "value": value} for name, value in headers] or None


def unpacked_rows(payload: bytes) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(payload), ROWS)
