"""The format `KAFKA`: one column in the form of Kafka's own serializers (numbers big endian, text as UTF-8)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace.component import Component, register
from headrace.errors import BadRecord, FormatUnsupported
from headrace.formats.serde.column_checks import describe_columns, kind_name, refuse_column, refuse_map_keys
from headrace.formats.serde.contract import Serde
from headrace.formats.serde.none import without_columns
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
                f'column "{self.column.name}": {len(payload)} bytes are no {kind_name(self.column.type)}',
                fix="declare the type that the producer writes",
            ) from None

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        if row is None or row[0] is None:
            return None
        return self.write(row[0])


class KafkaMaker:
    def check(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> None:
        if is_key:
            refuse_map_keys(columns)
        if len(columns) > 1:
            raise FormatUnsupported(
                f"The 'KAFKA' format only supports a single field. Got: {describe_columns(columns, is_key=is_key)}",
                fix="use JSON or another format for several columns",
            )
        for column in columns:
            if kind_name(column.type) not in CODECS:
                refuse_column("KAFKA", column, column.type, f"it holds {', '.join(CODECS)}; use JSON for other types")

    def serde(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> Serde:
        self.check(columns, is_key=is_key, wrapped=wrapped)
        return KafkaSerde(columns[0]) if columns else without_columns(is_key=is_key)


register(Component("serde", "kafka", "One column as Kafka's own serializers write it.", KafkaMaker))
