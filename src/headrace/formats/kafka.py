"""The format `KAFKA`: one column in the form of Kafka's own serializers (numbers big endian, text as UTF-8)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.component import Component, register
from headrace.errors import BadRecord, FormatUnsupported
from headrace.formats.column_types import describe_columns, kind_name, refuse_column
from headrace.formats.contract import ColumnBatch, ColumnReader, ColumnWriter, Format, Mask, Serde
from headrace.formats.values import valid_texts
from headrace.schema import Field


class Codec(NamedTuple):
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


def _packed(layout: str) -> Codec:
    packer = struct.Struct(layout)
    return Codec(lambda payload: packer.unpack(payload)[0], packer.pack)


CODECS = {
    "int": _packed(">i"),
    "bigint": _packed(">q"),
    "double": _packed(">d"),
    "string": Codec(bytes.decode, lambda text: text.encode(errors="replace")),
    "bytes": Codec(bytes, bytes),
}


class KafkaSerde:
    def __init__(self, column: Field) -> None:
        self.column = column
        self.read, self.write = CODECS[kind_name(column.type)]

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None:
        if payload is None:
            return None
        try:
            return (self.read(payload),)
        except (struct.error, UnicodeDecodeError):
            raise BadRecord(
                f'column "{self.column.name}": {len(payload)} bytes are not a valid {kind_name(self.column.type)}',
                fix="declare the type that the producer writes",
            ) from None

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        if row is None or row[0] is None:
            return None
        return self.write(row[0])


class KafkaFormat(Format):
    wraps = False

    def column_reader(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> ColumnReader | None:
        return KafkaColumns(columns[0]) if _is_held(columns) else None

    def column_writer(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> ColumnWriter | None:
        return KafkaColumns(columns[0]) if _is_held(columns) else None

    def _check(self, columns: Sequence[Field], *, is_key: bool) -> None:
        if len(columns) > 1:
            raise FormatUnsupported(
                f"The 'KAFKA' format only supports a single field. Got: {describe_columns(columns, is_key=is_key)}",
                fix="use JSON or another format for several columns",
            )
        for column in columns:
            if kind_name(column.type) not in CODECS:
                refuse_column("KAFKA", column, column.type, f"it holds {', '.join(CODECS)}; use JSON for other types")

    def _serde(self, columns: Sequence[Field], *, is_key: bool, bare: bool) -> Serde:
        return KafkaSerde(columns[0])


def _is_held(columns: Sequence[Field]) -> bool:
    return len(columns) == 1 and kind_name(columns[0].type) in CODECS


# -- columns --------------------------------------------------------------------------------------------------------

_NUMBERS = {"int": np.dtype(">i4"), "bigint": np.dtype(">i8"), "double": np.dtype(">f8")}


class KafkaColumns:
    """Reads and writes batches of payloads of one column."""

    def __init__(self, column: Field) -> None:
        self._kind = column.type
        self._number = _NUMBERS.get(kind_name(column.type))

    def read(self, payloads: pa.BinaryArray) -> ColumnBatch:
        present = payloads.is_valid()
        if self._number is not None:
            column, read = _numbers(payloads, self._number, self._kind)
        elif pa.types.is_string(self._kind):
            column, bad = valid_texts(payloads)
            read = np.ones(len(payloads), bool)
            read[bad] = False
        else:
            column, read = payloads, np.ones(len(payloads), bool)
        return ColumnBatch([column], present, read)

    def write(self, columns: Sequence[pa.Array], present: pa.BooleanArray) -> pa.BinaryArray:
        (column,) = columns
        encoded = column.cast(pa.binary()) if self._number is None else _packed_column(column, self._number)
        return pc.if_else(present, encoded, pa.scalar(None, pa.binary())) if present.false_count else encoded


def _numbers(payloads: pa.BinaryArray, form: np.dtype, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Decodes the payloads with the right length."""
    _, offsets, data = payloads.buffers()
    starts = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
    present = payloads.is_valid().to_numpy(zero_copy_only=False)
    fits = present & (np.diff(starts) == form.itemsize)
    letters = np.frombuffer(data or b"", np.uint8)
    places = starts[:-1][fits][:, None] + np.arange(form.itemsize)
    values = np.zeros(len(payloads), form.newbyteorder("="))
    values[fits] = letters[places].view(form).ravel()
    return pa.array(values, kind, mask=~fits), fits | ~present


def _packed_column(column: pa.Array, form: np.dtype) -> pa.Array:
    numbers = np.ascontiguousarray(pc.fill_null(column, 0).to_numpy().astype(form))
    packed = pa.Array.from_buffers(pa.binary(form.itemsize), len(numbers), [None, pa.py_buffer(numbers)])
    encoded = packed.cast(pa.binary())
    return pc.if_else(column.is_valid(), encoded, pa.scalar(None, pa.binary())) if column.null_count else encoded


register(Component("format", "kafka", "One column as Kafka's own serializers write it.", KafkaFormat))
