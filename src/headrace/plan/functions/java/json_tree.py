"""Parses JSON to Python values and back, with every number preserved as written.

Only the first value of a text is read, as in ksqlDB: what follows it is ignored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from headrace.formats.java_numbers import decimal_text, double_text
from headrace.plan import iso_datetime, types
from headrace.plan.functions.java.hash_map_order import entries_in_hash_order

MISSING = object()
"""The value of an empty text."""

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord(char): escape
    for char, escape in {
        '"': '\\"',
        "\\": "\\\\",
        "\b": "\\b",
        "\t": "\\t",
        "\n": "\\n",
        "\f": "\\f",
        "\r": "\\r",
    }.items()
}


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_number)


def read(text: str) -> Any:
    """Returns the first value of the text, `MISSING` if there is none; raises ValueError if it is not JSON."""
    text = text.lstrip(" \t\r\n")
    return _DECODER.raw_decode(text)[0] if text else MISSING


def write(value: Any) -> str:
    """Formats a value returned by `read`, without spaces."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{quoted(key)}:{write(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(write, value))}]"
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def plain(value: Any) -> str:
    """The same, but a string is returned unquoted."""
    return value if isinstance(value, str) else write(value)


def quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


# -- chain values ---------------------------------------------------------------------------------------------------

Writer = Callable[[Any], str]


def _number(value: float) -> str:
    text = double_text(value)
    return text if text[-1].isdigit() else quoted(text)


_WRITERS: dict[pa.DataType, Writer] = {
    types.BOOLEAN: lambda value: "true" if value else "false",
    types.INT: str,
    types.BIGINT: str,
    types.DOUBLE: _number,
    types.STRING: quoted,
    types.BYTES: lambda data: f'"{base64.b64encode(data).decode("ascii")}"',
    types.DATE: lambda days: f'"{iso_datetime.format_date(days)}"',
    types.TIME: lambda at: f'"{iso_datetime.format_time(at)}"',
    types.TIMESTAMP: lambda at: f'"{iso_datetime.format_timestamp(at)}"',
    types.NULL: lambda value: "null",
}


def writer(kind: pa.DataType) -> Writer:
    """Returns the function that formats a chain value of that type as JSON; null becomes `null`."""
    inner = _writer(kind)
    return lambda value: "null" if value is None else inner(value)


def _writer(kind: pa.DataType) -> Writer:
    if types.is_decimal(kind):
        return decimal_text
    if types.is_array(kind):
        item = writer(kind.value_type)
        return lambda value: f"[{','.join(map(item, value))}]"
    if types.is_map(kind):
        name, of_item = _key_writer(kind.key_type), writer(kind.item_type)
        return lambda value: (
            "{" + ",".join(f"{name(key)}:{of_item(item)}" for key, item in entries_in_hash_order(value)) + "}"
        )
    if types.is_struct(kind):
        fields = [(name, quoted(name), writer(inner)) for name, inner in types.fields(kind).items()]
        return lambda value: "{" + ",".join(f"{label}:{inner(value[name])}" for name, label, inner in fields) + "}"
    return _WRITERS[kind]


def _key_writer(kind: pa.DataType) -> Writer:
    text = writer(kind)
    return text if kind == types.STRING else lambda value: quoted(text(value).strip('"'))
