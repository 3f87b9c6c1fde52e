"""The format `AVRO`: records prefixed with a schema id; the schema is generated from the columns as in ksqlDB."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.component import Component, Option, register
from headrace.errors import FormatUnsupported
from headrace.formats.avro.schema import DEFAULT_NAME, NAME
from headrace.formats.column_types import check_map_keys_plain, nested_names
from headrace.formats.contract import Format, Serde
from headrace.formats.optional_libraries import require_library
from headrace.formats.schema_registry.registry import REGISTRY_OPTIONS, SHARED, Registry, subject
from headrace.schema import Field


class AvroFormat(Format):
    def __init__(self, registry: Registry | None = None, topic: str = "", schema_full_name: str = DEFAULT_NAME) -> None:
        require_library("fastavro", "avro")
        self.registry = registry or SHARED
        self.topic = topic
        self.full_name = schema_full_name

    def _check(self, columns: Sequence[Field], *, is_key: bool) -> None:
        check_map_keys_plain("AVRO", columns)
        for name in nested_names(columns):
            if not NAME.fullmatch(name):
                raise FormatUnsupported(
                    f"Schema is not compatible with Avro: illegal name `{name}`",
                    fix="use letters, digits and underscores, starting with a letter",
                )

    def _serde(self, columns: Sequence[Field], *, is_key: bool, bare: bool) -> Serde:
        from headrace.formats.avro.serde import AvroSerde  # only this format needs the library

        return AvroSerde(columns, subject(self.registry, self.topic, is_key=is_key), self.full_name, bare=bare)


register(
    Component(
        "format",
        "avro",
        "Avro records that carry the id of their schema.",
        AvroFormat,
        (*REGISTRY_OPTIONS, Option("schema_full_name", str, "Namespace and name of the record.", DEFAULT_NAME)),
    )
)
