"""Finds formats by name, with their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.component import component, components
from headrace.errors import BadFormatOption, BadOption, UnknownComponent, UnknownFormat, suggestion
from headrace.formats import kafka, none, raw
from headrace.formats.avro import format as avro
from headrace.formats.contract import Format, RowFormat
from headrace.formats.delimited import csv
from headrace.formats.delimited import format as delimited
from headrace.formats.json import format as json
from headrace.formats.json import json_sr, rows
from headrace.formats.protobuf import format as protobuf

__all__ = ["avro", "csv", "delimited", "json", "json_sr", "kafka", "none", "protobuf", "raw", "rows"]

_OLDER_NAMES = {"avro_schema_full_name": "schema_full_name"}


def find_format(name: str, options: Mapping[str, Any]) -> Format:
    """The format with that name, in any case, with options as its component declares them.

    Option names of a statement are accepted: KEY_DELIMITER and VALUE_DELIMITER both mean `delimiter`.
    """
    format_options = {_option(option): value for option, value in options.items()}
    try:
        return component("format", name.lower()).build(format_options)
    except UnknownComponent as error:
        known = [c.name.upper() for c in components("format")]
        fix = suggestion(name, known, f"formats are: {', '.join(known)}")
        raise UnknownFormat(f"Unknown format: {name}", fix=fix) from error
    except BadOption as error:
        raise BadFormatOption(f"{name.upper()}: {error.what}", fix=error.fix) from error


def find_row_format(name: str, options: Mapping[str, Any]) -> RowFormat:
    """The format for rows of typed topics with that name: json, csv or raw."""
    return component("row format", name).build(options)


def wrappings(name: str) -> frozenset[bool]:
    """The values of WRAP_SINGLE_VALUE that the format allows."""
    bare_only = {c.name for c in components("format") if not getattr(c.factory, "wraps", True)}
    return frozenset({False}) if name.lower() in bare_only else frozenset({True, False})


def _option(name: str) -> str:
    bare = name.lower().removeprefix("key_").removeprefix("value_")
    return _OLDER_NAMES.get(bare, bare)
