"""The WITH clause: its properties, their types, and which of them exclude each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.errors import BadProperty, suggestion
from headrace.lang.ksql import ast
from headrace.lang.ksql.properties import DEFAULT_KEY_FORMAT, DEFAULT_VALUE_FORMAT
from headrace.plan.relations import Format, Window, WindowKind

_UNITS = {
    "MILLISECOND": timedelta(milliseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text in quotes")
    return value


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError("a whole number") from None


def _count(value: Any) -> int:
    number = _number(value)
    if number < 1 and number != -1:  # -1 is Kafka's value for the broker's default
        raise ValueError("a number of at least 1")
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ValueError("true or false")


PROPERTY_READERS: Mapping[str, Callable[[Any], Any]] = {
    "KAFKA_TOPIC": _text,
    "FORMAT": _text,
    "KEY_FORMAT": _text,
    "VALUE_FORMAT": _text,
    "KEY_DELIMITER": _text,
    "VALUE_DELIMITER": _text,
    "PARTITIONS": _count,
    "REPLICAS": _count,
    "RETENTION_MS": _number,
    "CLEANUP_POLICY": _text,
    "TIMESTAMP": _text,
    "TIMESTAMP_FORMAT": _text,
    "WRAP_SINGLE_VALUE": _boolean,
    "WINDOW_TYPE": _text,
    "WINDOW_SIZE": _text,
    "KEY": _text,
    "KEY_SCHEMA_ID": _number,
    "VALUE_SCHEMA_ID": _number,
    "KEY_SCHEMA_FULL_NAME": _text,
    "VALUE_SCHEMA_FULL_NAME": _text,
    "VALUE_AVRO_SCHEMA_FULL_NAME": _text,
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION": _text,
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION": _text,
    "SOURCED_BY_CONNECTOR": _text,
    "QUERY_ID": _text,
    "INDEXES": _text,
}
_ONLY_FOR_SOURCES = ("WINDOW_TYPE", "WINDOW_SIZE", "KEY", "SOURCED_BY_CONNECTOR")
_SCHEMA_NAMES = ("VALUE_SCHEMA_FULL_NAME", "VALUE_AVRO_SCHEMA_FULL_NAME", "KEY_SCHEMA_FULL_NAME")
_WITH_SCHEMAS = ("AVRO", "PROTOBUF", "PROTOBUF_NOSR", "JSON_SR")


@dataclass(frozen=True)
class Properties:
    """Checked values by name, and their positions in the text."""

    values: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, ast.Property] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.values.get(name, otherwise)

    def error(self, name: str, what: str, fix: str | None = None) -> BadProperty:
        place = self.written.get(name)
        return BadProperty(what, span=place.span if place else None, fix=fix)

    # -- formats ----------------------------------------------------------------------------------------------------

    def key_format(self, inherited: Format | None) -> Format:
        """Returns the key format: of the WITH clause, else of the source of the rows, else the default."""
        name = self.get("KEY_FORMAT") or self.get("FORMAT")
        if name is None:
            if inherited is not None and inherited.name != "NONE":
                return self._inherit(inherited, "KEY_DELIMITER")
            name = self.settings.get(DEFAULT_KEY_FORMAT) or "KAFKA"
        return self._format(name, "KEY_DELIMITER")

    def value_format(self, inherited: Format | None) -> Format:
        name = self.get("VALUE_FORMAT") or self.get("FORMAT")
        if name is None:
            if inherited is not None:
                return self._inherit(inherited, "VALUE_DELIMITER")
            name = self.settings.get(DEFAULT_VALUE_FORMAT)
        if name is None:
            raise BadProperty(
                "Statement is missing the 'VALUE_FORMAT' property from the WITH clause. Either provide one or set a "
                f"default via the '{DEFAULT_VALUE_FORMAT}' config.",
                fix="add VALUE_FORMAT='JSON', for example",
            )
        return self._format(name, "VALUE_DELIMITER")

    def _inherit(self, inherited: Format, delimiter: str) -> Format:
        if delimiter in self.values:
            return self._format(inherited.name, delimiter)
        return Format(inherited.name, tuple(o for o in inherited.options if o[0] != "wrapped"))

    def _format(self, name: str, delimiter: str) -> Format:
        name = name.upper()
        for schema in _SCHEMA_NAMES:
            if schema in self.values and schema[:3] == delimiter[:3] and name not in _WITH_SCHEMAS:
                raise self.error(schema, f"{name} does not support the following configs: [fullSchemaName]")
        if delimiter not in self.values:
            return Format(name)
        if name != "DELIMITED":
            raise self.error(delimiter, f"{name} does not support the following configs: [delimiter]", "remove it")
        return Format(name, (("delimiter", self.values[delimiter]),))

    def window(self) -> Window | None:
        """Returns the window of a topic with windowed keys."""
        kind = self.get("WINDOW_TYPE")
        if kind is None:
            if "WINDOW_SIZE" in self.values:
                raise self.error("WINDOW_SIZE", "WINDOW_SIZE requires WINDOW_TYPE")
            return None
        try:
            window = WindowKind(kind.lower())
        except ValueError:
            raise self.error(
                "WINDOW_TYPE", f"WINDOW_TYPE cannot be '{kind}'", "use TUMBLING, HOPPING or SESSION"
            ) from None
        return self._sized(window)

    def _sized(self, kind: WindowKind) -> Window:
        size = self.get("WINDOW_SIZE")
        if kind is WindowKind.SESSION:
            if size is not None:
                raise self.error("WINDOW_SIZE", "'WINDOW_SIZE' should not be set for SESSION windows.")
            return Window(kind)
        if size is None:
            raise self.error(
                "WINDOW_TYPE", f"{kind.upper()} windows require 'WINDOW_SIZE' to be provided in the WITH clause."
            )
        return Window(kind, size=self._duration(size))

    def _duration(self, text: str) -> timedelta:
        match = re.fullmatch(r"\s*(\d+)\s+([A-Za-z]+)\s*", text)
        unit = _UNITS.get(match[2].upper().removesuffix("S")) if match else None
        if match is None or unit is None:
            raise self.error("WINDOW_SIZE", f"WINDOW_SIZE cannot be '{text}'", "write '10 SECONDS', for example")
        return int(match[1]) * unit


def read_properties(
    properties: Sequence[ast.Property], settings: Mapping[str, Any], *, query: bool = False
) -> Properties:
    """Parses and checks the properties, also for contradictions. `query` is a CREATE ... AS SELECT."""
    values: dict[str, Any] = {}
    for one in properties:
        if one.name not in PROPERTY_READERS or (query and one.name in _ONLY_FOR_SOURCES):
            known = [name for name in PROPERTY_READERS if not (query and name in _ONLY_FOR_SOURCES)]
            fix = suggestion(one.name, known, f"properties are: {', '.join(known)}")
            raise BadProperty(f"Invalid config variable(s) in the WITH clause: {one.name}", span=one.span, fix=fix)
        try:
            values[one.name] = PROPERTY_READERS[one.name](one.value)
        except ValueError as error:
            literal = "NULL" if one.value is None else repr(one.value)
            raise BadProperty(f"{one.name} cannot be {literal}", span=one.span, fix=f"write {error}") from None
    checked = Properties(values, {one.name: one for one in properties}, settings)
    for name in ("KEY_FORMAT", "VALUE_FORMAT"):
        if name in values and "FORMAT" in values:
            raise checked.error(
                name,
                f"Cannot supply both '{name}' and 'FORMAT' properties, as 'FORMAT' sets both key and value formats. "
                "Either use just 'FORMAT', or use 'KEY_FORMAT' and 'VALUE_FORMAT'.",
            )
    return checked
