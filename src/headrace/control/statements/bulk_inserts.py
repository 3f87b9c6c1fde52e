"""Columnar fast path for inserts: decodes many lines of JSON together and encodes them for a raw topic.

The result is byte for byte the same as line by line. If one of the lines is invalid, or Arrow would parse it in another
way than headrace's own parser, the caller must process all of them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import Topic
from headrace.engine.io.payloads import PayloadEncoder, payload_encoder
from headrace.formats.json.column_reader import JsonColumnReader, can_read
from headrace.log.stored_rows import binary_array
from headrace.plan import types as ty
from headrace.plan.chain.row_codec import sink_node
from headrace.plan.relations import Kind
from headrace.plan.sources import SourceInfo
from headrace.schema import Field

MIN_BULK_LINES = 256
"""With fewer lines, one by one is faster."""
_SAME = (ty.BOOLEAN, ty.INT, ty.BIGINT, ty.DOUBLE, ty.STRING)
"""Types whose values are the same in a column and in the chain."""


class BulkDecoder:
    """Decodes lines for one source; `columns` are those of a line: the key's, the value's, and the row's time."""

    def __init__(self, source: SourceInfo, columns: Sequence[Field], encoder: PayloadEncoder) -> None:
        self._encoder = encoder
        self._json = JsonColumnReader(columns, bare=False)
        self._width = len(source.relation.key)
        self._needs_key = source.kind is Kind.TABLE

    def rows(self, lines: Sequence[bytes], now: int) -> pa.RecordBatch | None:
        """The rows to append; None if the lines must be processed one by one."""
        if len(lines) < MIN_BULK_LINES:
            return None
        batch = self._json.read(binary_array(lines))
        return self._encode(batch.columns, now) if batch.read.all() else None

    def _encode(self, columns: Sequence[pa.Array], now: int) -> pa.RecordBatch | None:
        *cells, given_times = columns
        keys, values = cells[: self._width], cells[self._width :]
        times = pc.fill_null(given_times, now)
        if pc.min(times).as_py() < 0 or (self._needs_key and any(key.null_count for key in keys)):
            return None
        all_rows = pa.array(np.ones(len(times), bool))
        arrays = [self._encoder.keys(keys, all_rows), self._encoder.values(values, all_rows), times]
        return pa.RecordBatch.from_arrays(arrays, ["key", "value", "$occurred_at"])


def bulk_decoder_for(source: SourceInfo, columns: Sequence[Field], topic: Topic) -> BulkDecoder | None:
    """The decoder of a source; None if its lines must always be processed one by one."""
    if not topic.schema.is_raw or source.system or not can_read(columns) or not all(map(_is_same, columns)):
        return None
    encoder = payload_encoder(sink_node(source))
    return None if encoder is None else BulkDecoder(source, columns, encoder)


def _is_same(column: Field) -> bool:
    return column.type in _SAME
