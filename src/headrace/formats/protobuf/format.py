"""The formats `PROTOBUF` (messages prefixed with a schema id) and `PROTOBUF_NOSR` (messages alone).

There is always a message, even around a single column. With a registry a payload is read by its writer's schema;
without one the columns in their order are the fields 1, 2, 3 ...
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.component import Component, Option, register
from headrace.errors import BadFormatOption, FormatUnsupported
from headrace.formats.column_types import (
    check_map_keys_plain,
    kind_name,
    nested_names,
    nested_types,
    refuse_column,
)
from headrace.formats.contract import Format, Serde
from headrace.formats.schema_registry.registry import REGISTRY_OPTIONS, SHARED, Registry, Subject, subject
from headrace.schema import Field

DEFAULT_NAME = "ConnectDefault1"


class BareProtobufFormat(Format):
    name = "PROTOBUF_NOSR"

    def __init__(self, schema_full_name: str = DEFAULT_NAME, protobuf_nullable_representation: str = "") -> None:
        representation = protobuf_nullable_representation.upper()
        if representation not in ("", "OPTIONAL"):
            raise BadFormatOption(
                f"{self.name} cannot represent null as '{protobuf_nullable_representation}'",
                fix="use OPTIONAL, or omit the option; null is then written as the type's default",
            )
        self.full_name = schema_full_name
        self.nullable = representation == "OPTIONAL"

    def _check(self, columns: Sequence[Field], *, is_key: bool) -> None:
        check_map_keys_plain(self.name, columns)
        for name in nested_names(columns):
            if not name.isidentifier() or not name.isascii():
                raise FormatUnsupported(
                    f"Schema is not compatible with Protobuf: illegal name `{name}`",
                    fix="use letters, digits and underscores, starting with a letter",
                )
        for column in columns:
            self._check_nesting(column)

    def _check_nesting(self, column: Field) -> None:
        for kind in nested_types(column.type):
            if pa.types.is_null(kind):
                refuse_column(self.name, column, kind, "give the column a type, for example with CAST")
            if pa.types.is_list(kind) and (pa.types.is_list(kind.value_type) or pa.types.is_map(kind.value_type)):
                inner = kind_name(kind.value_type).upper()
                raise FormatUnsupported(
                    f"The '{self.name}' format does not support {inner} directly inside ARRAY, column: `{column.name}`",
                    fix="wrap the inner one in a STRUCT",
                )

    def _serde(self, columns: Sequence[Field], *, is_key: bool, bare: bool) -> Serde:
        from headrace.formats.protobuf.schema import described  # only this format needs the library
        from headrace.formats.protobuf.serde import BareProtobufSerde, ProtobufSerde

        file = described(columns, self.full_name, nullable=self.nullable)
        inner = BareProtobufSerde(columns, file, single=bare)
        subject = self.subject(is_key=is_key)
        return inner if subject is None else ProtobufSerde(inner, subject)

    def subject(self, *, is_key: bool) -> Subject | None:
        """The subject whose schema ids the payloads carry; None if they carry none."""
        return None


class ProtobufFormat(BareProtobufFormat):
    name = "PROTOBUF"

    def __init__(self, registry: Registry | None = None, topic: str = "", **options: str) -> None:
        super().__init__(**options)
        self.registry = registry or SHARED
        self.topic = topic

    def subject(self, *, is_key: bool) -> Subject | None:
        return subject(self.registry, self.topic, is_key=is_key)


_OPTIONS = (
    Option("schema_full_name", str, "Package and name of the message.", DEFAULT_NAME),
    Option("protobuf_nullable_representation", str, "OPTIONAL tells null from a type's default.", ""),
)
register(Component("format", "protobuf_nosr", "Protobuf messages, by the columns alone.", BareProtobufFormat, _OPTIONS))
register(
    Component(
        "format",
        "protobuf",
        "Protobuf messages that carry the id of their schema.",
        ProtobufFormat,
        (*REGISTRY_OPTIONS, *_OPTIONS),
    )
)
