"""Encodes records for responses: as JSON that can be produced again, or as Arrow.

A row has its columns, or `key` and `value` of a raw topic (`..._base64` where the bytes are not text), and the log's
metadata: `$partition`, `$offset`, `$timestamp` in ms, and if present `$headers` and `$deleted`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from headrace.contracts import Batch
from headrace.formats.json.rows import JsonRows
from headrace.schema import Schema


def encode_json(batch: Batch, schema: Schema) -> list[bytes]:
    """Each record as JSON."""
    rows = _raw(batch) if schema.is_raw else JsonRows().encode(_columns(batch, schema), schema).to_pylist()
    return [row[:-1] + b"," + orjson.dumps(own)[1:] for row, own in zip(rows, _own(batch), strict=True)]


def _columns(batch: Batch, schema: Schema) -> pa.RecordBatch:
    return batch.rows.select(list(schema.names))


def _raw(batch: Batch) -> Iterator[bytes]:
    keys, values = (batch.rows.column(name).to_pylist() for name in ("key", "value"))
    for key, value in zip(keys, values, strict=True):
        yield orjson.dumps({**_text("key", key), **_text("value", value)})


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _own(batch: Batch) -> Iterator[dict[str, Any]]:
    columns = {n: _values(batch, n) for n in ("$offset", "$timestamp", "$headers", "$deleted")}
    for offset, timestamp, headers, deleted in zip(*columns.values(), strict=True):
        own = {"$partition": batch.partition, "$offset": offset, "$timestamp": timestamp}
        if headers:
            own["$headers"] = [{"name": h["name"], **_text("value", h["value"])} for h in headers]
        if deleted:
            own["$deleted"] = True
        yield own


def _values(batch: Batch, name: str) -> Sequence[Any]:
    if name not in batch.rows.schema.names or batch.rows.column(name).null_count == len(batch):
        return [None] * len(batch)
    return batch.rows.column(name).to_pylist()


def encode_arrow(batches: Sequence[Batch], empty: pa.Schema) -> bytes:
    """An Arrow stream of the rows of all partitions, with a column `$partition`."""
    parts = [_placed(batch) for batch in batches]
    sink = pa.BufferOutputStream()
    shape = parts[0].schema if parts else empty.append(pa.field("$partition", pa.int32()))
    with pa.ipc.new_stream(sink, shape) as stream:
        for part in parts:
            stream.write_batch(part)
    return sink.getvalue().to_pybytes()


def _placed(batch: Batch) -> pa.RecordBatch:
    return batch.rows.append_column("$partition", pa.repeat(pa.scalar(batch.partition, pa.int32()), len(batch)))


def json_page(lines: Sequence[bytes], facts: Mapping[str, Any]) -> bytes:
    """A JSON document of records and further fields."""
    return b'{"records":[' + b",".join(lines) + b"]," + orjson.dumps(facts)[1:]
