"""JSON texts as Python values and back, with every number kept as it was written.

Only the first value of a text is read, as ksqlDB does: what follows it is not looked at.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from headrace.formats.numbers import decimal_text, double_text
from headrace.plan import calendar, types
from headrace.plan.functions.hash_order import entries

MISSING = object()
"""What an empty text holds."""

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
    """The first value of the text, `MISSING` if there is none; raises ValueError if it is not JSON."""
    text = text.lstrip(" \t\r\n")
    return _DECODER.raw_decode(text)[0] if text else MISSING


def write(value: Any) -> str:
    """The text of a value that `read` gave, without spaces."""
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
    """The same, but a text as it is."""
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
    types.DATE: lambda days: f'"{calendar.date_text(days)}"',
    types.TIME: lambda at: f'"{calendar.time_text(at)}"',
    types.TIMESTAMP: lambda at: f'"{calendar.timestamp_text(at)}"',
    types.NULL: lambda value: "null",
}


def writer(kind: pa.DataType) -> Writer:
    """What turns a chain value of that type into JSON text; null becomes `null`."""
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
        return lambda value: "{" + ",".join(f"{name(key)}:{of_item(item)}" for key, item in entries(value)) + "}"
    if types.is_struct(kind):
        fields = [(name, quoted(name), writer(inner)) for name, inner in types.fields(kind).items()]
        return lambda value: "{" + ",".join(f"{label}:{inner(value[name])}" for name, label, inner in fields) + "}"
    return _WRITERS[kind]


def _key_writer(kind: pa.DataType) -> Writer:
    text = writer(kind)
    return text if kind == types.STRING else lambda value: quoted(text(value).strip('"'))
