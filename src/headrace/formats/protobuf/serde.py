"""Rows to Protobuf messages and back: alone, or prefixed with the id of the writer's schema.

There is always a message, even around a single column. With a registry a payload is read by its writer's schema, and
its fields go to columns with the same name; without one, the columns in their order are the fields 1, 2, 3 ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headrace.errors import BadRecord
from headrace.formats.column_types import bad_value
from headrace.formats.primitives import Mismatch
from headrace.formats.protobuf.proto_text import format_proto, parse_proto
from headrace.formats.protobuf.schema import message_class
from headrace.formats.protobuf.values import message_filler, message_reader
from headrace.formats.schema_registry.registry import Subject, framed, unframed
from headrace.schema import Field

Row = tuple[Any, ...]
Read = Callable[[bytes], Row]
_FIX = "fix the producer, or declare the columns as in its schema"
_DEEPEST = 32


class BareProtobufSerde:
    """The messages alone."""

    def __init__(self, columns: Sequence[Field], file: FileDescriptorProto, *, single: bool) -> None:
        self.kinds = {column.name: column.type for column in columns}
        self.file = file
        self.single = single
        self.message = message_class(file)
        self.fill = message_filler(self.kinds)
        self.read = self.reader(self.message)

    def decode(self, payload: bytes | None) -> Row | None:
        return None if payload is None else self.read(payload)

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        if row is None or (self.single and row[0] is None):
            return None
        message = self.message()
        self.fill(message, dict(zip(self.kinds, row, strict=True)))
        return message.SerializeToString(deterministic=True)

    def reader(self, message: Any) -> Read:
        convert = message_reader(self.kinds, message.DESCRIPTOR)

        def read(body: bytes) -> Row:
            try:
                return tuple(convert(message.FromString(body)).values())
            except Mismatch as error:
                raise bad_value(error, _FIX) from None
            except Exception as error:  # the runtime's DecodeError, and what its versions raise besides
                raise BadRecord(f"the payload does not match its Protobuf message: {error!r}", fix=_FIX) from None

        return read


class ProtobufSerde:
    """Messages prefixed with the schema id and the message's index in the schema."""

    def __init__(self, inner: BareProtobufSerde, subject: Subject) -> None:
        self.inner = inner
        self.subject = subject
        self.readers: dict[tuple[int, tuple[int, ...]], Read] = {}

    @cached_property
    def id(self) -> int:
        """Requested at the first write: readers register nothing."""
        return self.subject.id_of(format_proto(self.inner.file), "PROTOBUF")

    def decode(self, payload: bytes | None) -> Row | None:
        if payload is None:
            return None
        schema_id, rest = unframed(payload)
        path, body = _path(rest)
        read = self.readers.get((schema_id, path))
        if read is None:
            read = self._reader(self.subject.schema(schema_id, "PROTOBUF"), path)
            self.readers[schema_id, path] = read
        return read(body)

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        body = self.inner.encode(row)
        return None if body is None else framed(self.id, b"\x00" + body)

    def _reader(self, text: str, path: tuple[int, ...]) -> Read:
        try:
            return self.inner.reader(message_class(parse_proto(text), path))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise BadRecord(f"the payload's message does not exist in its schema: {error!r}", fix=_FIX) from None


def _path(rest: bytes) -> tuple[tuple[int, ...], bytes]:
    """The message indexes: their number and each of them as a varint; a single 0 is the first message."""
    count, at = _varint(rest, 0)
    if count == 0:
        return (0,), rest[at:]
    if not 0 < count <= _DEEPEST:
        raise BadRecord("the payload does not name a message of its schema", fix=_FIX)
    path: list[int] = []
    for _ in range(count):
        place, at = _varint(rest, at)
        if place < 0:
            raise BadRecord("the payload does not name a message of its schema", fix=_FIX)
        path.append(place)
    return tuple(path), rest[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(data[at : at + 5]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + shift + 1
    raise BadRecord("the payload ends before the message begins", fix=_FIX)
