"""Protobuf's rules for schema evolution: fields are identified by number, and their bytes must keep their meaning.

Fields may be added, removed and renamed. A number may not change its wire type, a member of a `oneof` may not be
removed, nor may two fields become alternatives of each other. Nested messages are compared by their fields, not by
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Kind

from headrace.errors import BadSchema
from headrace.formats.protobuf.proto_text import parse_proto
from headrace.formats.protobuf.schema import message_class
from headrace.formats.schema_registry.state import without_noise

_WIRE = {
    **dict.fromkeys(
        (Kind.TYPE_INT32, Kind.TYPE_INT64, Kind.TYPE_UINT32, Kind.TYPE_UINT64, Kind.TYPE_BOOL, Kind.TYPE_ENUM),
        "a plain integer",
    ),
    **dict.fromkeys((Kind.TYPE_SINT32, Kind.TYPE_SINT64), "a zigzag integer"),
    **dict.fromkeys((Kind.TYPE_FIXED32, Kind.TYPE_SFIXED32), "four fixed bytes"),
    **dict.fromkeys((Kind.TYPE_FIXED64, Kind.TYPE_SFIXED64), "eight fixed bytes"),
    **dict.fromkeys((Kind.TYPE_STRING, Kind.TYPE_BYTES), "text or bytes"),
    Kind.TYPE_FLOAT: "a float",
    Kind.TYPE_DOUBLE: "a double",
    Kind.TYPE_MESSAGE: "a message",
    Kind.TYPE_GROUP: "a group",
}
_LENGTH_FIRST = ("text or bytes", "a message")
_REQUIRED = re.compile(r"\brequired [\w.]+ \w+ =")


def check(text: str) -> None:
    _file(text)


def problems(reader: str, writer: str) -> list[str]:
    if any(_REQUIRED.search(without_noise(text)) for text in (reader, writer)):
        return ["required fields are not supported; make them optional"]
    read = _file(reader).message_types_by_name
    return list(_messages(read, _file(writer).message_types_by_name))


@lru_cache(maxsize=256)
def _file(text: str) -> Any:
    try:
        return message_class(parse_proto(text)).DESCRIPTOR.file
    except Exception as error:  # the parser's ValueError, and what versions of the runtime raise
        raise BadSchema(
            f"this is not a valid Protobuf schema: {error}"[:500],
            fix='for example: syntax = "proto3"; message M { string a = 1; }',
        ) from None


def _messages(reader: Any, writer: Any) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for name, message in writer.items():
        if name not in reader:
            yield f"message {name} was removed"
        else:
            yield from _message(reader[name], message, name, seen)


def _message(reader: Any, writer: Any, path: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    if (reader.full_name, writer.full_name) in seen:
        return
    seen.add((reader.full_name, writer.full_name))
    for number, wrote in writer.fields_by_number.items():
        location = f"{path}.{wrote.name} = {number}"
        field = reader.fields_by_number.get(number)
        if field is not None:
            yield from _field(field, wrote, location, seen)
        elif _oneof(wrote):
            yield f"{location}: the member of oneof {_oneof(wrote)} was removed"
    yield from _alternatives(reader, writer, path)


def _field(reader: Any, writer: Any, path: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    read, wrote = _WIRE[reader.type], _WIRE[writer.type]
    if read != wrote:
        yield f"{path}: {read} cannot read {wrote}"
        return
    if writer.is_repeated and not reader.is_repeated:
        yield f"{path}: a single field cannot read a repeated one"
    elif reader.is_repeated and not writer.is_repeated and read not in _LENGTH_FIRST:
        yield f"{path}: repeated numbers are packed, single ones are not"
    if reader.message_type is not None:
        yield from _message(reader.message_type, writer.message_type, path, seen)


def _alternatives(reader: Any, writer: Any, path: str) -> Iterator[str]:
    """Fields that could be set together, but of which the reader would keep only one."""
    groups: dict[str, set[str]] = {}
    for number, wrote in writer.fields_by_number.items():
        field = reader.fields_by_number.get(number)
        now = _oneof(field) if field is not None else ""
        if now:
            groups.setdefault(now, set()).add(_oneof(wrote) or f"field {wrote.name}")
    for name, together in groups.items():
        if len(together) > 1:
            yield f"{path}: oneof {name} combines fields that were separate: {', '.join(sorted(together))}"


def _oneof(field: Any) -> str:
    """The oneof that the field belongs to; `optional` does not count, though it is encoded as one."""
    choice = field.containing_oneof
    return "" if choice is None or (len(choice.fields) == 1 and choice.name == f"_{field.name}") else choice.name
