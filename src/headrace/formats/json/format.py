"""The format `JSON`: an object with a field per column, or the unwrapped value of a single column.

Reading is as lenient as ksqlDB's (see `lenient`); a missing field is null, an unknown one is ignored. Writing
includes every column, also nulls. A key of one column is never wrapped; `null` and an unwrapped null are no row at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.component import Component, register
from headrace.errors import BadRecord, FormatUnsupported
from headrace.formats.column_types import nested_types
from headrace.formats.contract import ColumnReader, ColumnWriter, Format, Serde, is_bare
from headrace.formats.json.column_reader import JsonColumnReader, can_read
from headrace.formats.json.column_writer import JsonColumnWriter, can_write
from headrace.formats.json.decoder import reader
from headrace.formats.json.document import parse_json, parse_json_exactly
from headrace.formats.json.encoder import dumps, row_writer
from headrace.formats.json.lenient import EXACT, FAST, Inexact, lookup
from headrace.formats.primitives import Convert, Mismatch
from headrace.schema import Field

Row = tuple[Any, ...]
_FIX = "fix the producer, or declare the column with the type that it writes"


class JsonSerde:
    """An object per row."""

    def __init__(self, columns: Sequence[Field]) -> None:
        self.names = [column.name for column in columns]
        self.find = lookup(self.names)
        self.readers = [reader(column.type, FAST) for column in columns]
        self.exact_readers = [reader(column.type, EXACT) for column in columns]
        self.written = row_writer([column.type for column in columns])
        self.only_exact = _has_decimal(columns)

    def decode(self, payload: bytes | None) -> Row | None:
        if payload is None:
            return None
        if not self.only_exact:
            try:
                return self._row(_document(parse_json, payload), self.readers)
            except Inexact:
                pass
        return self._row(_document(parse_json_exactly, payload), self.exact_readers)

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        if row is None:
            return None
        cells = row if self.written is None else self.written(row)
        return dumps(dict(zip(self.names, cells, strict=True)))

    def _row(self, document: Any, readers: list[Convert]) -> Row | None:
        if not isinstance(document, dict):
            if document is None:
                return None
            raise BadRecord("the payload is JSON, but not an object", fix=_FIX)
        row: list[Any] = []
        try:
            for read, value in zip(readers, self.find(document), strict=True):
                row.append(None if value is None else read(value))
        except Mismatch as error:
            raise BadRecord(error.reason(self.names[len(row)]), fix=_FIX) from None
        return tuple(row)


class BareJsonSerde(JsonSerde):
    """The unwrapped value of the only column; null is no payload."""

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        if row is None or row[0] is None:
            return None
        return dumps((row if self.written is None else self.written(row))[0])

    def _row(self, document: Any, readers: list[Convert]) -> Row | None:
        try:
            return None if document is None else (readers[0](document),)
        except Mismatch as error:
            raise BadRecord(error.reason(self.names[0]), fix=_FIX) from None


def _document(parse_it: Callable[[bytes], Any], payload: bytes) -> Any:
    try:
        return parse_it(payload)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"the payload is not JSON: {error}", fix=_FIX) from None


def _has_decimal(columns: Sequence[Field]) -> bool:
    return any(pa.types.is_decimal(kind) for column in columns for kind in nested_types(column.type))


class JsonFormat(Format):
    name = "JSON"

    def column_reader(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> ColumnReader | None:
        bare = is_bare(columns, is_key=is_key, wrapped=wrapped)
        return JsonColumnReader(columns, bare=bare) if can_read(columns) else None

    def column_writer(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> ColumnWriter | None:
        bare = is_bare(columns, is_key=is_key, wrapped=wrapped)
        return JsonColumnWriter(columns, bare=bare) if can_write(columns) else None

    def _check(self, columns: Sequence[Field], *, is_key: bool) -> None:
        for column in columns:
            for kind in nested_types(column.type):
                if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
                    raise FormatUnsupported(
                        f"{self.name} only supports MAP types with STRING keys, column: `{column.name}`",
                        fix="declare the keys of the map as STRING, or use AVRO or PROTOBUF",
                    )

    def _serde(self, columns: Sequence[Field], *, is_key: bool, bare: bool) -> Serde:
        return BareJsonSerde(columns) if bare else JsonSerde(columns)


register(Component("format", "json", "A JSON object per row, or the bare value of a single column.", JsonFormat))
