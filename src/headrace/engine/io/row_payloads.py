"""Packs rows for a raw topic as one payload: an Arrow batch without its schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.contracts import HEADERS_TYPE
from headrace.plan.chain.records import Headers, RawRecord

ROWS = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("$timestamp", pa.int64()), ("$headers", HEADERS_TYPE)])
"""Rows for a raw topic."""


def rows_payload(records: Sequence[RawRecord]) -> bytes:
    """Records for a raw topic, as one payload."""
    columns = [
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([record.time for record in records], pa.int64()),
        pa.array([header_items(record.headers) for record in records], HEADERS_TYPE),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS).serialize().to_pybytes()


def columns_payload(keys: pa.BinaryArray, values: pa.BinaryArray, times: pa.Int64Array) -> bytes:
    """Columns for a raw topic, without headers, as one payload."""
    columns = [keys, values, times, pa.nulls(len(keys), HEADERS_TYPE)]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS).serialize().to_pybytes()


def header_items(headers: Headers) -> list[dict[str, Any]] | None:
    return [{"name": name, "value": value} for name, value in headers] or None


def payload_rows(payload: bytes) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(payload), ROWS)
