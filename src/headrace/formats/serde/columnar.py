"""Converts batches of payloads to columns and back, with the same result as the format's serde."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.serde.column_checks import kind_name
from headrace.formats.serde.json_columns import JsonColumns, can_read
from headrace.formats.serde.json_text import JsonText, can_write
from headrace.formats.serde.kafka import CODECS
from headrace.formats.values import valid_texts
from headrace.schema import Field

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ColumnBatch:
    """A batch of payloads as columns. Payloads that are not in `read` must be decoded by the serde."""

    columns: list[pa.Array]
    there: pa.BooleanArray
    """Whether there is a row; false where `decode` returns None."""
    read: Mask


class ColumnReader(Protocol):
    """Created for fixed columns, like a serde."""

    def read(self, payloads: pa.BinaryArray) -> ColumnBatch: ...


def column_reader(name: str, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> ColumnReader | None:
    """For the format with that name, in any case; None if its payloads must be read one by one."""
    if name.lower() == "json" and can_read(columns):
        return JsonColumnReader(columns, bare=len(columns) == 1 and (is_key or not wrapped))
    if name.lower() == "kafka" and len(columns) == 1 and kind_name(columns[0].type) in CODECS:
        return KafkaColumnReader(columns[0])
    return None


class JsonColumnReader:
    def __init__(self, columns: Sequence[Field], *, bare: bool) -> None:
        self._bare = bare
        self._json = JsonColumns(columns, bare=bare)

    def read(self, payloads: pa.BinaryArray) -> ColumnBatch:
        columns, read = self._json.read(payloads)
        return ColumnBatch(columns, (columns[0] if self._bare else payloads).is_valid(), read)


class KafkaColumnReader:
    """One column in the form of Kafka's own serializers."""

    def __init__(self, column: Field) -> None:
        self._kind = column.type
        self._number = _NUMBERS.get(kind_name(column.type))

    def read(self, payloads: pa.BinaryArray) -> ColumnBatch:
        there = payloads.is_valid()
        if self._number is not None:
            column, read = _numbers(payloads, self._number, self._kind)
        elif pa.types.is_string(self._kind):
            column, bad = valid_texts(payloads)
            read = np.ones(len(payloads), bool)
            read[bad] = False
        else:
            column, read = payloads, np.ones(len(payloads), bool)
        return ColumnBatch([column], there, read)


_NUMBERS = {"int": np.dtype(">i4"), "bigint": np.dtype(">i8"), "double": np.dtype(">f8")}


def _numbers(payloads: pa.BinaryArray, form: np.dtype, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Decodes the payloads with the right length."""
    _, offsets, data = payloads.buffers()
    starts = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
    there = payloads.is_valid().to_numpy(zero_copy_only=False)
    fits = there & (np.diff(starts) == form.itemsize)
    letters = np.frombuffer(data or b"", np.uint8)
    places = starts[:-1][fits][:, None] + np.arange(form.itemsize)
    values = np.zeros(len(payloads), form.newbyteorder("="))
    values[fits] = letters[places].view(form).ravel()
    return pa.array(values, kind, mask=~fits), fits | ~there


# -- write ----------------------------------------------------------------------------------------------------------


class ColumnWriter(Protocol):
    def write(self, columns: Sequence[pa.Array], there: pa.BooleanArray) -> pa.BinaryArray:
        """Payloads of columns that hold the chain's values; null where there is no row."""
        ...


def column_writer(name: str, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> ColumnWriter | None:
    """For the format with that name, in any case; None if rows must be written one by one."""
    if name.lower() == "json" and can_write(columns):
        return JsonText(columns, bare=len(columns) == 1 and (is_key or not wrapped))
    if name.lower() == "kafka" and len(columns) == 1 and kind_name(columns[0].type) in CODECS:
        return KafkaColumnWriter(columns[0])
    return None


class KafkaColumnWriter:
    """One column in the form of Kafka's own serializers."""

    def __init__(self, column: Field) -> None:
        self._number = _NUMBERS.get(kind_name(column.type))

    def write(self, columns: Sequence[pa.Array], there: pa.BooleanArray) -> pa.BinaryArray:
        (column,) = columns
        written = column.cast(pa.binary()) if self._number is None else _packed(column, self._number)
        return pc.if_else(there, written, pa.scalar(None, pa.binary())) if there.false_count else written


def _packed(column: pa.Array, form: np.dtype) -> pa.Array:
    numbers = np.ascontiguousarray(pc.fill_null(column, 0).to_numpy().astype(form))
    packed = pa.Array.from_buffers(pa.binary(form.itemsize), len(numbers), [None, pa.py_buffer(numbers)])
    written = packed.cast(pa.binary())
    return pc.if_else(column.is_valid(), written, pa.scalar(None, pa.binary())) if column.null_count else written
