"""The format `JSON_SR`: `JSON` payloads prefixed with the id of a JSON schema, which is generated from the columns.

Only the columns decide what is read, as in `JSON`; a payload without an id is accepted, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.component import Component, register
from headrace.formats.column_types import kind_name
from headrace.formats.contract import Format, Serde
from headrace.formats.json.format import JsonFormat
from headrace.formats.schema_registry.registry import (
    REGISTRY_OPTIONS,
    SHARED,
    Registry,
    Subject,
    framed,
    subject,
    unframed,
)
from headrace.schema import Field

_LEAVES: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "int": {"type": "integer", "connect.type": "int32"},
    "bigint": {"type": "integer", "connect.type": "int64"},
    "double": {"type": "number", "connect.type": "float64"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "connect.type": "bytes"},
    "date": {"type": "integer", "title": "org.apache.kafka.connect.data.Date", "connect.type": "int32"},
    "time": {"type": "integer", "title": "org.apache.kafka.connect.data.Time", "connect.type": "int32"},
    "timestamp": {"type": "integer", "title": "org.apache.kafka.connect.data.Timestamp", "connect.type": "int64"},
    "null": {"type": "null"},
}


def json_schema(columns: Sequence[Field]) -> dict[str, Any]:
    """The schema of an object with the columns."""
    return _object([(column.name, column.type) for column in columns])


def value_schema(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_decimal(kind):
        parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
        title = "org.apache.kafka.connect.data.Decimal"
        return {"type": "number", "title": title, "connect.type": "bytes", "connect.parameters": parameters}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type)}
    if pa.types.is_map(kind):
        return {"type": "object", "connect.type": "map", "additionalProperties": _nullable(kind.item_type)}
    if pa.types.is_struct(kind):
        return _object([(field.name, field.type) for field in kind])
    return _LEAVES[kind_name(kind)]


def _object(fields: Sequence[tuple[str, pa.DataType]]) -> dict[str, Any]:
    properties = {name: {"connect.index": i, **_nullable(kind)} for i, (name, kind) in enumerate(fields)}
    return {"type": "object", "properties": properties}


def _nullable(kind: pa.DataType) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, value_schema(kind)]}


class JsonSchemaSerde:
    def __init__(self, inner: Serde, schema: dict[str, Any], subject: Subject) -> None:
        self.inner = inner
        self.schema = schema
        self.subject = subject

    @cached_property
    def id(self) -> int:
        """Requested at the first write: readers register nothing."""
        return self.subject.id_of(json.dumps(self.schema), "JSON")

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None:
        if payload is not None and payload.startswith(b"\x00"):  # no JSON begins with this byte
            payload = unframed(payload)[1]
        return self.inner.decode(payload)

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        body = self.inner.encode(row)
        return None if body is None else framed(self.id, body)


class JsonSchemaFormat(JsonFormat):
    name = "JSON_SR"

    def __init__(self, registry: Registry | None = None, topic: str = "") -> None:
        self.registry = registry or SHARED
        self.topic = topic

    column_reader = Format.column_reader
    column_writer = Format.column_writer

    def _serde(self, columns: Sequence[Field], *, is_key: bool, bare: bool) -> Serde:
        inner = super()._serde(columns, is_key=is_key, bare=bare)
        schema = value_schema(columns[0].type) if bare else json_schema(columns)
        return JsonSchemaSerde(inner, schema, subject(self.registry, self.topic, is_key=is_key))


register(
    Component(
        "format",
        "json_sr",
        "JSON that carries the id of its JSON schema.",
        JsonSchemaFormat,
        REGISTRY_OPTIONS,
    )
)
