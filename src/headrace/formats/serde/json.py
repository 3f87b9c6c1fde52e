"""The format `JSON`: an object with a field per column, or the unwrapped value of a single column.

Reading is as lenient as ksqlDB's (see `json_decoder`); a missing field is null, an unknown one is ignored. Writing
includes every column, also nulls. A key of one column is never wrapped; `null` and an unwrapped null are no row at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.component import Component, register
from headrace.errors import BadRecord, FormatUnsupported
from headrace.formats.json_document import parse_json, parse_json_exactly
from headrace.formats.primitives import Convert, Mismatch
from headrace.formats.serde.column_checks import nested_types, refuse_map_keys
from headrace.formats.serde.contract import Serde
from headrace.formats.serde.json_decoder import Inexact, lookup, reader
from headrace.formats.serde.json_encoder import dumps, row_writer, writer
from headrace.formats.serde.none import NoneSerde
from headrace.schema import Field

Row = tuple[Any, ...]
_FIX = "correct the producer, or declare the column with the type that it writes"


class JsonSerde:
    """An object per row."""

    def __init__(self, columns: Sequence[Field]) -> None:
        self.names = [column.name for column in columns]
        self.find = lookup(self.names)
        self.readers = [reader(column.type, exact=False) for column in columns]
        self.exact_readers = [reader(column.type, exact=True) for column in columns]
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
            raise BadRecord("the payload is JSON, but no object", fix=_FIX)
        row: list[Any] = []
        try:
            for read, value in zip(readers, self.find(document), strict=True):
                row.append(None if value is None else read(value))
        except Mismatch as error:
            raise BadRecord(error.reason(self.names[len(row)]), fix=_FIX) from None
        return tuple(row)


class BareJsonSerde:
    """The unwrapped value of the only column; null is no payload."""

    def __init__(self, column: Field) -> None:
        self.name = column.name
        self.read, self.read_exact = (reader(column.type, exact=exact) for exact in (False, True))
        self.write = writer(column.type)
        self.only_exact = _has_decimal([column])

    def decode(self, payload: bytes | None) -> Row | None:
        if payload is None:
            return None
        try:
            if not self.only_exact:
                return _single(_document(parse_json, payload), self.read)
        except Inexact:
            pass
        except Mismatch as error:
            raise BadRecord(error.reason(self.name), fix=_FIX) from None
        try:
            return _single(_document(parse_json_exactly, payload), self.read_exact)
        except Mismatch as error:
            raise BadRecord(error.reason(self.name), fix=_FIX) from None

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        value = None if row is None else row[0]
        if value is None:
            return None
        return dumps(value if self.write is None else self.write(value))


def _single(document: Any, read: Convert) -> Row | None:
    return None if document is None else (read(document),)


def _document(parse_it: Callable[[bytes], Any], payload: bytes) -> Any:
    try:
        return parse_it(payload)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"the payload is not JSON: {error}", fix=_FIX) from None


def _has_decimal(columns: Sequence[Field]) -> bool:
    return any(pa.types.is_decimal(kind) for column in columns for kind in nested_types(column.type))


class JsonMaker:
    name = "JSON"

    def check(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> None:
        if is_key:
            refuse_map_keys(columns)
        for column in columns:
            for kind in nested_types(column.type):
                if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
                    raise FormatUnsupported(
                        f"{self.name} only supports MAP types with STRING keys, column: `{column.name}`",
                        fix="declare the keys of the map as STRING, or use AVRO or PROTOBUF",
                    )

    def serde(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> Serde:
        self.check(columns, is_key=is_key, wrapped=wrapped)
        if is_key and not columns:
            return NoneSerde()
        if len(columns) == 1 and (is_key or not wrapped):
            return BareJsonSerde(columns[0])
        return JsonSerde(columns)


register(Component("serde", "json", "A JSON object per row, or the bare value of a single column.", JsonMaker))
