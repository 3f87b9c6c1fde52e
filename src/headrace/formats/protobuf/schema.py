"""Generates the Protobuf message of columns as ksqlDB does, and message classes from any descriptor.

Structs are nested messages, maps are repeated entries (as a map is on the wire); decimals, dates, times and timestamps
are the well-known messages of their kind. A descriptor is a `FileDescriptorProto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from headrace.formats.column_types import kind_name
from headrace.schema import Field

DECIMAL, DATE, TIME, TIMESTAMP = (
    "confluent.type.Decimal",
    "google.type.Date",
    "google.type.TimeOfDay",
    "google.protobuf.Timestamp",
)
LEAVES = {
    "boolean": "bool",
    "int": "int32",
    "bigint": "int64",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "decimal": DECIMAL,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMP,
}
SCALARS: dict[str, Any] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
_MAP_KEYS = frozenset(number for name, number in SCALARS.items() if name not in ("double", "float", "bytes"))
_REPEATED, _OPTIONAL = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.LABEL_OPTIONAL


def add_field(message: DescriptorProto, name: str, kind: str, number: int, *, repeated: bool = False) -> Any:
    """A field of a scalar type, or of a message type by name."""
    field = message.field.add(name=name, number=number, label=_REPEATED if repeated else _OPTIONAL)
    if kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type_name = kind
    return field


def add_optional(message: DescriptorProto, field: Any) -> None:
    """Lets the field distinguish null from its default: in Protobuf a oneof with one member."""
    field.proto3_optional = True
    field.oneof_index = len(message.oneof_decl)
    message.oneof_decl.add(name=f"_{field.name}")


# -- from columns ---------------------------------------------------------------------------------------------------


class _Builder:
    def __init__(self, nullable: bool) -> None:
        self.nullable = nullable
        self.count = 1

    def message(self, name: str, fields: Iterable[tuple[str, pa.DataType]]) -> DescriptorProto:
        message = DescriptorProto(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            self.field(message, field, kind, number)
        return message

    def field(self, message: DescriptorProto, name: str, kind: pa.DataType, number: int) -> None:
        repeated = pa.types.is_list(kind) or pa.types.is_map(kind)
        item = kind.value_type if pa.types.is_list(kind) else kind
        field = add_field(message, name, self.type(message, item), number, repeated=repeated)
        if self.nullable and field.HasField("type") and not repeated:
            add_optional(message, field)

    def type(self, message: DescriptorProto, kind: pa.DataType) -> str:
        if not pa.types.is_struct(kind) and not pa.types.is_map(kind):
            return LEAVES[kind_name(kind)]
        self.count += 1
        if pa.types.is_struct(kind):
            inner = self.message(f"ConnectDefault{self.count}", [(f.name, f.type) for f in kind])
        else:
            inner = self.entry(f"ConnectDefault{self.count}Entry", kind)
        message.nested_type.append(inner)
        return inner.name

    def entry(self, name: str, kind: pa.DataType) -> DescriptorProto:
        """A map's entry; marked as such where Protobuf supports the key type."""
        entry = self.message(name, [("key", kind.key_type), ("value", kind.item_type)])
        key, value = entry.field
        is_map = key.type in _MAP_KEYS and value.label != _REPEATED
        entry.options.map_entry = is_map and not self.nullable
        return entry


def described(columns: Sequence[Field], full_name: str, *, nullable: bool) -> FileDescriptorProto:
    """The descriptor of a message with the columns; `nullable` scalars are `optional`."""
    package, _, name = full_name.rpartition(".")
    file = FileDescriptorProto(name=f"{full_name}.proto", package=package, syntax="proto3")
    file.message_type.append(_Builder(nullable).message(name, [(c.name, c.type) for c in columns]))
    used = str(file)
    file.dependency.extend(path for path, known in KNOWN.items() if any(name in used for name in _names(known)))
    return file


# -- to classes -----------------------------------------------------------------------------------------------------


def _file(path: str, package: str, name: str, fields: dict[str, str]) -> FileDescriptorProto:
    file = FileDescriptorProto(name=path, package=package, syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), 1):
        add_field(message, field, kind, number)
    return file


def _copied(module: Any) -> FileDescriptorProto:
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


KNOWN = {
    file.name: file
    for file in (
        _copied(timestamp_pb2),
        _copied(wrappers_pb2),
        _file("google/type/date.proto", "google.type", "Date", dict.fromkeys(("year", "month", "day"), "int32")),
        _file(
            "google/type/timeofday.proto",
            "google.type",
            "TimeOfDay",
            dict.fromkeys(("hours", "minutes", "seconds", "nanos"), "int32"),
        ),
        _file(
            "confluent/type/decimal.proto",
            "confluent.type",
            "Decimal",
            {"value": "bytes", "precision": "uint32", "scale": "int32"},
        ),
    )
}


def _names(file: FileDescriptorProto) -> list[str]:
    return [f"{file.package}.{message.name}" for message in file.message_type]


def message_class(file: FileDescriptorProto, path: Sequence[int] = (0,)) -> Any:
    """The class of a message in the file, by its index and the indexes of nested messages."""
    pool = DescriptorPool()
    for known in KNOWN.values():
        pool.Add(known)
    plain = FileDescriptorProto()
    plain.CopyFrom(file)
    for message in plain.message_type:
        _without_maps(message)
    pool.Add(plain)
    message, name = plain.message_type[path[0]], f"{plain.package}." if plain.package else ""
    name += message.name
    for place in path[1:]:
        message = message.nested_type[place]
        name += f".{message.name}"
    return GetMessageClass(pool.FindMessageTypeByName(name))


def _without_maps(message: DescriptorProto) -> None:
    """Map entries as plain messages: the same bytes, and one way to read them whatever their keys are."""
    message.options.ClearField("map_entry")
    for inner in message.nested_type:
        _without_maps(inner)
