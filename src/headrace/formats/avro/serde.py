"""Rows to Avro records and back, each prefixed with the id of the writer's schema.

Columns are written with the schema that `schema` generates from them. A payload is read with its writer's schema,
and its fields go to columns with the same name, in any case; a value that does not fit is a `BadRecord`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import fastavro

from headrace.errors import BadRecord
from headrace.formats.avro.decoder import WriterSchema, reader, record_reader, without_times
from headrace.formats.avro.map_entries import entries_writer
from headrace.formats.avro.schema import record_schema, value_schema
from headrace.formats.column_types import bad_value
from headrace.formats.primitives import Mismatch, convert_at
from headrace.formats.schema_registry.registry import Subject, framed, unframed
from headrace.schema import Field

Row = tuple[Any, ...]
_FIX = "fix the producer, or declare the columns as in its schema"


class AvroSerde:
    """A record per row, or the unwrapped value of the only column."""

    def __init__(self, columns: Sequence[Field], subject: Subject, full_name: str, *, bare: bool) -> None:
        self.columns = columns
        self.names = [column.name for column in columns]
        self.subject = subject
        self.bare = bare
        self.schema = value_schema(columns[0], full_name) if bare else record_schema(columns, full_name)
        self.parsed = fastavro.parse_schema(without_times(self.schema))
        self.writers = [entries_writer(column.type) for column in columns]
        self.readers: dict[int, Callable[[bytes], Row | None]] = {}

    @cached_property
    def id(self) -> int:
        """Requested at the first write: readers register nothing."""
        return self.subject.id_of(json.dumps(self.schema), "AVRO")

    def decode(self, payload: bytes | None) -> Row | None:
        if payload is None:
            return None
        schema_id, body = unframed(payload)
        read = self.readers.get(schema_id)
        if read is None:
            read = self.readers[schema_id] = self._reader(self.subject.schema(schema_id, "AVRO"))
        return read(body)

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        if row is None or (self.bare and row[0] is None):
            return None
        cells = [v if v is None or write is None else write(v) for v, write in zip(row, self.writers, strict=True)]
        body = io.BytesIO()
        fastavro.schemaless_writer(
            body, self.parsed, cells[0] if self.bare else dict(zip(self.names, cells, strict=True))
        )
        return framed(self.id, body.getvalue())

    def _reader(self, text: str) -> Callable[[bytes], Row | None]:
        writer = _writer(text)
        convert = self._bare(writer) if self.bare else self._record(writer)

        def read(body: bytes) -> Row | None:
            value = _avro(body, writer)
            try:
                return None if value is None else convert(value)
            except Mismatch as error:
                raise bad_value(error, _FIX) from None

        return read

    def _bare(self, writer: WriterSchema) -> Callable[[Any], Row]:
        convert = reader(self.columns[0].type, writer.root, writer)
        return lambda value: (convert_at(self.names[0], convert, value),)

    def _record(self, writer: WriterSchema) -> Callable[[Any], Row]:
        kinds = {column.name: column.type for column in self.columns}
        convert = record_reader(kinds, writer.node(writer.root), writer)
        return lambda value: tuple(convert(value).values())


def _writer(text: str) -> WriterSchema:
    try:
        return WriterSchema(json.loads(text))
    except Exception as error:  # a registry may hold any text, and fastavro raises many kinds of errors
        raise BadRecord(f"the payload's schema is invalid: {error!r}", fix=_FIX) from None


def _avro(body: bytes, writer: WriterSchema) -> Any:
    try:
        return fastavro.schemaless_reader(io.BytesIO(body), writer.plain, None)
    except Exception as error:  # fastavro may raise anything on malformed bytes
        raise BadRecord(f"the payload does not match its Avro schema: {error!r}", fix=_FIX) from None
