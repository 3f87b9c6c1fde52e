"""Selects the rows of a subscription by their headers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import Batch, Filter


def header_filter(headers: Mapping[str, str | bytes]) -> Filter:
    """Rows that have all these headers with these values; of several headers with one name the last counts."""
    pairs = {name: value.encode() if isinstance(value, str) else value for name, value in headers.items()}

    def matches(batch: Batch) -> pa.Array:
        mask = pa.array(np.ones(len(batch), np.bool_))
        for name, value in pairs.items():
            equal = pc.equal(_last_header(batch.rows, name), pa.scalar(value, pa.binary()))
            mask = pc.and_(mask, pc.fill_null(equal, False))
        return mask

    return matches


def _last_header(rows: pa.RecordBatch, name: str) -> pa.BinaryArray:
    """Each row's last header with that name."""
    if "$headers" not in rows.schema.names:
        return pa.nulls(rows.num_rows, pa.binary())
    headers = rows.column("$headers")
    flat = headers.flatten()
    indexes = np.flatnonzero(pc.equal(flat.field("name"), name).to_numpy(zero_copy_only=False) == True)  # noqa: E712
    last = np.full(rows.num_rows, -1, np.int64)
    last[pc.list_parent_indices(headers).to_numpy()[indexes]] = indexes  # the last assignment wins
    return flat.field("value").take(pa.array(last, mask=last < 0))
