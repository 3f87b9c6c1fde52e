"""Sizes of rows in bytes: text, bytes, numbers and nested values, computed without touching single values."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.record import Record

Sizes = npt.NDArray[np.int64]


def record_size(record: Record) -> int:
    """Bytes of key, value and headers."""
    headers = sum(len(name) + len(value) for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def row_sizes(columns: Iterable[pa.Array], count: int) -> Sizes:
    """Bytes of each row over some columns; null has none."""
    return sum((_sizes(column) for column in columns), np.zeros(count, np.int64))


def _sizes(column: pa.Array) -> Sizes:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_map(kind):
        return _present(column, _summed(column, _sizes(column.keys) + _sizes(column.items)))
    if pa.types.is_list(kind):
        return _present(column, _summed(column, _sizes(column.values)))
    if pa.types.is_struct(kind):
        return _present(column, row_sizes((column.field(i) for i in range(kind.num_fields)), len(column)))
    return _present(column, np.full(len(column), (kind.bit_width + 7) // 8, np.int64))


def _summed(column: pa.Array, items: Sizes) -> Sizes:
    """The sizes of the items between a list's offsets."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(items)])
    return np.diff(ends[column.offsets.to_numpy()])


def _present(column: pa.Array, sizes: Sizes) -> Sizes:
    return sizes * column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else sizes
