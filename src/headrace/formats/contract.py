"""The contract of formats.

A `Format` encodes the key or the value columns of a KSQL source: row by row with a `Serde`, and where it can, a batch
of payloads at once with a `ColumnReader` and a `ColumnWriter`, which give exactly the results of the serde. A
`RowFormat` encodes whole rows of a typed topic, for files, requests and Kafka messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.column_types import refuse_map_keys
from headrace.schema import Field, Schema

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


# -- keys and values of KSQL sources --------------------------------------------------------------------------------


class Serde(Protocol):
    """Created for fixed columns; stateless, so that one instance serves all partitions.

    Values are those of the chain (see `headrace.plan.types`). An invalid payload raises `BadRecord` with a reason; it
    never crashes the reader. `None` is no payload, and decodes to None.
    """

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None: ...
    def encode(self, row: Sequence[Any] | None) -> bytes | None: ...


@dataclass(frozen=True)
class ColumnBatch:
    """A batch of payloads as columns. Payloads that are not in `read` must be decoded by the serde."""

    columns: list[pa.Array]
    present: pa.BooleanArray
    """Whether there is a row; false where `decode` returns None."""
    read: Mask


class ColumnReader(Protocol):
    def read(self, payloads: pa.BinaryArray) -> ColumnBatch: ...


class ColumnWriter(Protocol):
    def write(self, columns: Sequence[pa.Array], present: pa.BooleanArray) -> pa.BinaryArray:
        """Payloads of columns that hold the chain's values; null where there is no row."""
        ...


class Format:
    """A format with its options; registered as a component of kind "format"."""

    name: str
    wraps = True
    """Whether a single value column may be wrapped, and a value may have no columns."""

    def check(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> None:
        """Raises a coded error when the format cannot hold these columns: a type, a name, a number of columns."""
        del wrapped
        if is_key:
            refuse_map_keys(columns)
        self._check(columns, is_key=is_key)

    def serde(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> Serde:
        self.check(columns, is_key=is_key, wrapped=wrapped)
        if columns or (self.wraps and not is_key):
            return self._serde(columns, is_key=is_key, bare=is_bare(columns, is_key=is_key, wrapped=wrapped))
        return NoneSerde() if is_key else BlankSerde()

    def column_reader(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> ColumnReader | None:
        """None if payloads must be read one by one."""
        return None

    def column_writer(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> ColumnWriter | None:
        """None if rows must be written one by one."""
        return None

    def _check(self, columns: Sequence[Field], *, is_key: bool) -> None:
        raise NotImplementedError

    def _serde(self, columns: Sequence[Field], *, is_key: bool, bare: bool) -> Serde:
        raise NotImplementedError


def is_bare(columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> bool:
    """Whether the payload is the value of the only column, without an object or a record around it."""
    return len(columns) == 1 and (is_key or not wrapped)


class NoneSerde:
    """Neither reads nor writes anything."""

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None:
        return None

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        return None


class BlankSerde:
    """For values without columns in a format that cannot express them: there is a row, and nothing in it."""

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None:
        return None if payload is None else ()

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        return None if row is None else b""


# -- rows of typed topics -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reject:
    """An invalid payload: its index among the payloads, an error code and a human-readable reason."""

    index: int
    code: str
    reason: str


@dataclass(frozen=True)
class Decoded:
    """Rows in the payloads' order. `good[i]` is the index of the payload that became row `i`."""

    rows: pa.RecordBatch
    good: Indices
    rejects: list[Reject]


class RowFormat(Protocol):
    """Registered as a component of kind "row format". An invalid payload never raises an exception.

    `decode` of what `encode` returned gives equal rows.
    """

    def decode(self, payloads: pa.BinaryArray, schema: Schema) -> Decoded: ...
    def encode(self, rows: pa.RecordBatch, schema: Schema) -> pa.BinaryArray: ...
