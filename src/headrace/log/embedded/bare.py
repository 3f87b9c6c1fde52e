"""Bare records: single records of raw topics, which travel as they are and become one extent where they are committed.

Who commits for sixteen processes finds the caches cold, and then what counts is how much code is run through, not how
often: records that have nothing but a key and a value are made rows here, with a third of what `prepare` takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from headrace.contracts import Topic, TopicSpec
from headrace.log.embedded.extents import Extent, Writer
from headrace.log.rows import prepare
from headrace.record import Record
from headrace.settings import Size

_ANY_RAW = Topic("", TopicSpec(max_record_bytes=Size(1 << 62)), 0)
_BINARY, _INTEGER = pa.binary(), pa.int64()
_PLAIN = pa.schema({"key": _BINARY, "value": _BINARY, "$timestamp": _INTEGER})


def stage(records: Sequence[Record], encoder: Writer, now: int) -> Extent:
    """One extent of all the records."""
    return encoder.stage(rows_of(records, now), (now, now) if _plain(records) else None)


def rows_of(records: Sequence[Record], now: int) -> pa.RecordBatch:
    """Rows of any raw topic; sizes were looked at when the records came in."""
    if not _plain(records):
        return prepare(records, _ANY_RAW, now)
    times = pa.Array.from_buffers(_INTEGER, len(records), [None, pa.py_buffer(array("q", [now]) * len(records))])
    columns = [_binary([record.key for record in records]), _binary([record.value for record in records]), times]
    return pa.RecordBatch.from_arrays(columns, schema=_PLAIN)


def _plain(records: Sequence[Record]) -> bool:
    return not any(r.headers or (r.occurred_at, r.sent_at, r.received_at) != (None, None, None) for r in records)


def _binary(values: list[bytes | None]) -> pa.Array:
    given = [value or b"" for value in values]
    ends = array("i", accumulate(map(len, given), initial=0))
    buffers = [_validity(values), pa.py_buffer(ends), pa.py_buffer(b"".join(given))]
    return pa.Array.from_buffers(_BINARY, len(values), buffers)


def _validity(values: list[bytes | None]) -> pa.Buffer | None:
    if None not in values:
        return None
    bits = sum((value is not None) << i for i, value in enumerate(values))
    return pa.py_buffer(bits.to_bytes((len(values) + 7) // 8, "little"))
