"""Generates the Avro schema of columns as ksqlDB does: one record, all fields nullable, logical types where they exist.

Maps with non-text keys are arrays of entries. Nested records are named after the path to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.formats.column_types import kind_name
from headrace.schema import Field

DEFAULT_NAME = "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_LEAVES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "bigint": "long",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "int", "logicalType": "time-millis"},
    "timestamp": {"type": "long", "logicalType": "timestamp-millis"},
    "null": "null",
}


def record_schema(columns: Sequence[Field], full_name: str) -> dict[str, Any]:
    namespace, _, name = full_name.rpartition(".")
    schema = _record(name, [(column.name, column.type) for column in columns])
    return {"type": "record", "name": name, "namespace": namespace, **schema} if namespace else schema


def value_schema(column: Field, full_name: str) -> Any:
    """The schema of one column's unwrapped value."""
    namespace, _, name = full_name.rpartition(".")
    schema = _schema(column.type, name)
    if namespace and isinstance(schema, dict) and schema["type"] == "record":
        return {"type": "record", "name": name, "namespace": namespace, **schema}
    return schema


def _record(name: str, fields: Sequence[tuple[str, pa.DataType]]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": field, "type": _nullable(kind, f"{name}_{field}"), "default": None} for field, kind in fields
        ],
    }


def _nullable(kind: pa.DataType, path: str) -> Any:
    schema = _schema(kind, path)
    return schema if schema == "null" else ["null", schema]


def _schema(kind: pa.DataType, path: str) -> Any:
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type, path)}
    if pa.types.is_struct(kind):
        return _record(path, [(field.name, field.type) for field in kind])
    if pa.types.is_map(kind):
        return _map(kind, path)
    return _LEAVES[kind_name(kind)]


def _map(kind: pa.DataType, path: str) -> Any:
    if pa.types.is_string(kind.key_type):
        return {"type": "map", "values": _nullable(kind.item_type, path)}
    entry = _record(path, [("key", kind.key_type), ("value", kind.item_type)])
    return {"type": "array", "items": {**entry, "connect.internal.type": "MapEntry"}}
