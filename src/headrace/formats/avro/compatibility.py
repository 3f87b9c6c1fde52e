"""Avro's schema resolution rules as in its specification: whether a reader's schema can read a writer's data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from headrace.errors import BadSchema
from headrace.formats.avro.decoder import WriterSchema

_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def check(text: str) -> None:
    _parsed(text)


def problems(reader: str, writer: str) -> list[str]:
    return list(_Pair(_parsed(reader), _parsed(writer)).compare())


@lru_cache(maxsize=256)
def _parsed(text: str) -> WriterSchema:
    try:
        schema = WriterSchema(json.loads(text))
        _check_fields(schema)
        return schema
    except Exception as error:  # fastavro raises many kinds of errors
        raise BadSchema(
            f"this is not a valid Avro schema: {error!r}"[:500],
            fix='for example {"type": "record", "name": "R", "fields": []}',
        ) from None


def _check_fields(schema: WriterSchema) -> None:
    for node in schema.named.values():
        names = [field["name"] for field in node.get("fields", ())]
        if len(names) != len({*names}):
            raise ValueError(f"{node['name']} has two fields of the same name")


class _Pair:
    """A reader's and a writer's schema. Recursive records are compared once."""

    def __init__(self, reader: WriterSchema, writer: WriterSchema) -> None:
        self.reader, self.writer = reader, writer
        self.seen: set[tuple[str, str]] = set()

    def compare(self) -> Iterator[str]:
        return self.at("", self.reader.root, self.writer.root)

    def at(self, path: str, reader: Any, writer: Any) -> Iterator[str]:
        reader, writer = _node(reader, self.reader), _node(writer, self.writer)
        if isinstance(writer, list):
            for branch in writer:
                yield from self.at(path, reader, branch)
        elif isinstance(reader, list):
            if not any(self._fits(path, branch, writer) for branch in reader):
                yield f"{path or 'it'}: the union has no branch that reads {_name(writer)}"
        else:
            yield from self.single(path, reader, writer)

    def _fits(self, path: str, reader: Any, writer: Any) -> bool:
        before = set(self.seen)
        if next(self.at(path, reader, writer), None) is None:
            return True
        self.seen = before  # pairs seen in a failed branch may have failed there
        return False

    def single(self, path: str, reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[str]:
        kind, wrote = reader["type"], writer["type"]
        if kind != wrote:
            if kind not in _PROMOTED.get(wrote, ()):
                yield f"{path or 'it'}: {_name(reader)} cannot read {_name(writer)}"
        elif kind in _COMPARED:
            yield from _COMPARED[kind](self, path, reader, writer)
        yield from _decimals(path, reader, writer)

    def record(self, path: str, reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[str]:
        if (reader["name"], writer["name"]) in self.seen:
            return
        self.seen.add((reader["name"], writer["name"]))
        yield from _names(path, reader, writer)
        wrote = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            location = f"{path}.{field['name']}".lstrip(".")
            candidates = [wrote[name] for name in (field["name"], *field.get("aliases", ())) if name in wrote]
            if candidates:
                yield from self.at(location, field["type"], candidates[0]["type"])
            elif "default" not in field:
                yield f"{location}: the new field has no default"

    def enum(self, path: str, reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[str]:
        yield from _names(path, reader, writer)
        unknown = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
        if unknown and "default" not in reader:
            yield f"{path or 'it'}: the enum lacks {', '.join(unknown)} and has no default"

    def fixed(self, path: str, reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[str]:
        yield from _names(path, reader, writer)
        if reader["size"] != writer["size"]:
            yield f"{path or 'it'}: {reader['size']} bytes cannot read {writer['size']} bytes"

    def array(self, path: str, reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[str]:
        return self.at(f"{path}[]", reader["items"], writer["items"])

    def map(self, path: str, reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[str]:
        return self.at(f"{path}{{}}", reader["values"], writer["values"])


_COMPARED: dict[str, Callable[[_Pair, str, dict[str, Any], dict[str, Any]], Iterator[str]]] = {
    "record": _Pair.record,
    "error": _Pair.record,
    "enum": _Pair.enum,
    "fixed": _Pair.fixed,
    "array": _Pair.array,
    "map": _Pair.map,
}


def _node(schema: Any, of: WriterSchema) -> Any:
    """A union as a list, anything else as an object with a type, with names and wrappers resolved."""
    while not isinstance(schema, list):
        if isinstance(schema, str):
            schema = of.named.get(schema) or {"type": schema}
        elif isinstance(schema["type"], str) and schema["type"] not in of.named:
            return schema
        else:
            schema = schema["type"]
    return schema


def _names(path: str, reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[str]:
    """Names without their namespace must be equal, or the reader must list the writer's as an alias."""
    if _short(reader) != _short(writer) and writer["name"] not in _aliases(reader):
        yield f"{path or 'it'}: {_name(reader)} is not {_name(writer)}"


def _short(node: dict[str, Any]) -> str:
    return node["name"].rpartition(".")[2]


def _aliases(node: dict[str, Any]) -> set[str]:
    space = node["name"].rpartition(".")[0]
    return {alias if "." in alias or not space else f"{space}.{alias}" for alias in node.get("aliases", ())}


def _decimals(path: str, reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[str]:
    if not reader.get("logicalType") == writer.get("logicalType") == "decimal":
        return
    read, wrote = ((node.get("precision"), node.get("scale", 0)) for node in (reader, writer))
    if read != wrote:
        yield f"{path or 'it'}: decimal({read[0]},{read[1]}) is not decimal({wrote[0]},{wrote[1]})"


def _name(node: dict[str, Any]) -> str:
    return f"{node['type']} {node['name']}" if "name" in node else node["type"]
