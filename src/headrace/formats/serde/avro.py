"""The format `AVRO`: records prefixed with a schema id; the schema is generated from the columns as in ksqlDB."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.component import Component, Option, register
from headrace.errors import FormatUnsupported
from headrace.formats.serde.avro_schema import DEFAULT_NAME, NAME
from headrace.formats.serde.column_checks import check_map_keys_plain, nested_names, refuse_map_keys
from headrace.formats.serde.contract import Serde
from headrace.formats.serde.none import NoneSerde
from headrace.formats.serde.optional_libraries import require_library
from headrace.formats.serde.registry import REGISTRY_OPTIONS, SHARED, Registry, subject
from headrace.schema import Field


class AvroMaker:
    def __init__(self, registry: Registry | None = None, topic: str = "", schema_full_name: str = DEFAULT_NAME) -> None:
        require_library("fastavro", "avro")
        self.registry = registry or SHARED
        self.topic = topic
        self.full_name = schema_full_name

    def check(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> None:
        if is_key:
            refuse_map_keys(columns)
        check_map_keys_plain("AVRO", columns)
        for name in nested_names(columns):
            if not NAME.fullmatch(name):
                raise FormatUnsupported(
                    f"Schema is not compatible with Avro: illegal name `{name}`",
                    fix="use letters, digits and underscores, and begin with a letter",
                )

    def serde(self, columns: Sequence[Field], *, is_key: bool, wrapped: bool) -> Serde:
        from headrace.formats.serde.avro_serde import AvroSerde  # only this format needs the library

        self.check(columns, is_key=is_key, wrapped=wrapped)
        if is_key and not columns:
            return NoneSerde()
        bare = len(columns) == 1 and (is_key or not wrapped)
        return AvroSerde(columns, subject(self.registry, self.topic, is_key=is_key), self.full_name, bare=bare)


register(
    Component(
        "serde",
        "avro",
        "Avro records that carry the id of their schema.",
        AvroMaker,
        (*REGISTRY_OPTIONS, Option("schema_full_name", str, "Namespace and name of the record.", DEFAULT_NAME)),
    )
)
