"""Decodes Avro values, written with any writer's schema, to column values.

fastavro's dates end in the year 9999 and its times have zones, so temporal logical types are read as plain integers and
converted to headrace's units here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastavro
import pyarrow as pa

from headrace.formats.column_types import kind_name
from headrace.formats.java_numbers import double_text
from headrace.formats.json.lenient import places
from headrace.formats.primitives import PRIMITIVES, Convert, Mismatch, binary_double, convert_at

_FINER = {"time-micros": 1000, "timestamp-micros": 1000, "timestamp-nanos": 1_000_000}


class WriterSchema:
    """A writer's schema: how to read its payloads, and what its parts are called."""

    def __init__(self, schema: Any) -> None:
        self.root: Any = fastavro.parse_schema(schema)  # with full names in place of short ones
        self.plain = fastavro.parse_schema(without_times(schema))
        self.named = {node["name"]: node for node in _parts(self.root) if "name" in node}

    def node(self, schema: Any) -> dict[str, Any]:
        """What a name, a nullable union or a wrapper stands for; empty if there are several alternatives."""
        while not isinstance(schema, dict) or isinstance(schema["type"], dict | list):
            if isinstance(schema, list):
                others = [branch for branch in schema if branch != "null"]
                if len(others) != 1:
                    return {"type": "union"}
                schema = others[0]
            elif isinstance(schema, dict):
                schema = schema["type"]
            else:
                schema = self.named.get(schema) or {"type": schema}
        return schema


def without_times(schema: Any) -> Any:
    """The schema without logical types, except for decimals."""
    if isinstance(schema, list):
        return [without_times(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {k: v for k, v in schema.items() if k != "logicalType" or v == "decimal"}
    for part in ("type", "items", "values"):
        if part in plain:
            plain[part] = without_times(plain[part])
    if "fields" in plain:
        plain["fields"] = [{**field, "type": without_times(field["type"])} for field in plain["fields"]]
    return plain


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for branch in schema:
            yield from _parts(branch)
    elif isinstance(schema, dict):
        yield schema
        inner = [schema.get(part) for part in ("type", "items", "values")]
        for part in [*inner, *(field["type"] for field in schema.get("fields", ()))]:
            yield from _parts(part)


def reader(kind: pa.DataType, schema: Any, writer: WriterSchema) -> Convert:
    """A function for values of the type, which is never called with None."""
    name = kind_name(kind)
    return _READERS.get(name, _leaf)(kind, writer.node(schema), writer)


def record_reader(
    columns: Mapping[str, pa.DataType], node: dict[str, Any], writer: WriterSchema
) -> Callable[[Any], dict[str, Any]]:
    """A function from a record to column values by name."""
    types = {field["name"]: field["type"] for field in node.get("fields", ())}
    matches = zip(columns.items(), places(list(types), list(columns)), strict=True)
    readers = [(name, at, reader(kind, types[at], writer) if at else None) for (name, kind), at in matches]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not types:
            raise Mismatch("record", value)
        row: dict[str, Any] = {}
        for name, at, read in readers:
            row[name] = None if read is None else convert_at(f".{name}", read, value[at])
        return row

    return convert


def _struct(kind: pa.DataType, node: dict[str, Any], writer: WriterSchema) -> Convert:
    return record_reader({field.name: field.type for field in kind}, node, writer)


def _array(kind: pa.DataType, node: dict[str, Any], writer: WriterSchema) -> Convert:
    item = reader(kind.value_type, node.get("items", "null"), writer)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Mismatch("array", value)
        return [None if v is None else item(v) for v in value]

    return convert


def _map(kind: pa.DataType, node: dict[str, Any], writer: WriterSchema) -> Convert:
    if node["type"] == "array":
        return _entries(kind, writer.node(node["items"]), writer)
    item = reader(kind.item_type, node.get("values", "null"), writer)

    def convert(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict) or not pa.types.is_string(kind.key_type):
            raise Mismatch("map", value)
        return {k: None if v is None else item(v) for k, v in value.items()}

    return convert


def _entries(kind: pa.DataType, node: dict[str, Any], writer: WriterSchema) -> Convert:
    entry = record_reader({"key": kind.key_type, "value": kind.item_type}, node, writer)

    def convert(value: Any) -> dict[Any, Any]:
        return {pair["key"]: pair["value"] for pair in map(entry, value)}

    return convert


def _leaf(kind: pa.DataType, node: dict[str, Any], writer: WriterSchema) -> Convert:
    read = PRIMITIVES[kind_name(kind)](kind)
    finer = _FINER.get(node.get("logicalType", ""))
    return read if finer is None else lambda value: read(value // finer)


def _double(kind: pa.DataType, node: dict[str, Any], writer: WriterSchema) -> Convert:
    return binary_double(kind)


def _string(kind: pa.DataType, node: dict[str, Any], writer: WriterSchema) -> Convert:
    def convert(value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return double_text(value) if isinstance(value, float) else str(value)
        raise Mismatch("string", value)

    return convert


def _bytes(kind: pa.DataType, node: dict[str, Any], writer: WriterSchema) -> Convert:
    def convert(value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        raise Mismatch("bytes", value)

    return convert


_READERS: dict[str, Callable[[pa.DataType, dict[str, Any], WriterSchema], Convert]] = {
    "struct": _struct,
    "array": _array,
    "map": _map,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
    "null": lambda kind, node, writer: lambda value: None,
}
