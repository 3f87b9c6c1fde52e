"""Serdes: convert single payloads, as the chain needs them. One module per format, each registered as a component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.component import component, components
from headrace.errors import BadFormatOption, BadOption, UnknownComponent, UnknownFormat
from headrace.formats.serde import avro, delimited, json, json_sr, kafka, none, protobuf
from headrace.formats.serde.contract import Serde, SerdeMaker

__all__ = [
    "Serde",
    "SerdeMaker",
    "avro",
    "delimited",
    "json",
    "json_sr",
    "kafka",
    "none",
    "protobuf",
    "serde_maker",
    "wrappings",
]

_OLDER_NAMES = {"avro_schema_full_name": "schema_full_name"}
_BARE_ONLY = frozenset({"delimited", "kafka", "none"})


def serde_maker(name: str, options: Mapping[str, Any]) -> SerdeMaker:
    """The format with that name, in any case, with options as its component declares them.

    Option names of a statement are accepted: KEY_DELIMITER and VALUE_DELIMITER both mean `delimiter`.
    """
    given = {_option(option): value for option, value in options.items()}
    try:
        return component("serde", name.lower()).build(given)
    except UnknownComponent as error:
        known = ", ".join(c.name.upper() for c in components("serde"))
        raise UnknownFormat(f"Unknown format: {name}", fix=f"formats are: {known}") from error
    except BadOption as error:
        raise BadFormatOption(f"{name.upper()}: {error.what}", fix=error.fix) from error


def wrappings(name: str) -> frozenset[bool]:
    """The values of WRAP_SINGLE_VALUE that the format allows."""
    return frozenset({False}) if name.lower() in _BARE_ONLY else frozenset({True, False})


def _option(name: str) -> str:
    bare = name.lower().removeprefix("key_").removeprefix("value_")
    return _OLDER_NAMES.get(bare, bare)
