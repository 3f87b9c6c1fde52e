"""Raw records: single records of raw topics, which the committing process joins in one extent.

A process that commits for sixteen others has cold caches, so the amount of code matters more than the number of
iterations: records with only a key and a value become rows here, at a third of the cost of `prepare_rows`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from headrace.contracts import Topic, TopicSpec
from headrace.log.embedded.storage.extents import EncodedExtent, ExtentEncoder
from headrace.log.stored_rows import prepare_rows
from headrace.record import Record
from headrace.settings import Size

_ANY_RAW = Topic("", TopicSpec(max_record_bytes=Size(1 << 62)), 0)
_BINARY, _INTEGER = pa.binary(), pa.int64()
_PLAIN = pa.schema({"key": _BINARY, "value": _BINARY, "$timestamp": _INTEGER})


def stage_records(records: Sequence[Record], encoder: ExtentEncoder, now: int) -> EncodedExtent:
    """Encode all records as one extent."""
    return encoder.stage(raw_rows(records, now), (now, now) if _plain(records) else None)


def raw_rows(records: Sequence[Record], now: int) -> pa.RecordBatch:
    """Rows of any raw topic; sizes were checked when the records arrived."""
    if not _plain(records):
        return prepare_rows(records, _ANY_RAW, now)
    times = pa.Array.from_buffers(_INTEGER, len(records), [None, pa.py_buffer(array("q", [now]) * len(records))])
    columns = [_binary([record.key for record in records]), _binary([record.value for record in records]), times]
    return pa.RecordBatch.from_arrays(columns, schema=_PLAIN)


def _plain(records: Sequence[Record]) -> bool:
    return not any(r.headers or (r.occurred_at, r.sent_at, r.received_at) != (None, None, None) for r in records)


def _binary(values: list[bytes | None]) -> pa.Array:
    contents = [value or b"" for value in values]
    ends = array("i", accumulate(map(len, contents), initial=0))
    buffers = [_validity(values), pa.py_buffer(ends), pa.py_buffer(b"".join(contents))]
    return pa.Array.from_buffers(_BINARY, len(values), buffers)


def _validity(values: list[bytes | None]) -> pa.Buffer | None:
    if None not in values:
        return None
    bits = sum((value is not None) << i for i, value in enumerate(values))
    return pa.py_buffer(bits.to_bytes((len(values) + 7) // 8, "little"))
