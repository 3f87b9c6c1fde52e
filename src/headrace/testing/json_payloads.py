"""Converts payloads between the JSON documents of test cases and the bytes of a format.

JSON is the document itself, with numbers as written (`1.0` is not `1.00`); DELIMITED is the line; KAFKA is one scalar
of the type of its only column; NONE is null. The window of a key is a separate document `{start, end, type}`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.errors import BadTestCases
from headrace.formats.java_numbers import double_text
from headrace.plan.relations import Format, WindowKind
from headrace.plan.sources import SourceInfo
from headrace.plan.types import BIGINT, DOUBLE, INT
from headrace.schema import Field

# -- JSON text ------------------------------------------------------------------------------------------------------


def read_json(text: str | bytes) -> Any:
    """Parse JSON: integers as int, all other numbers as decimals, which preserve how they were written."""
    return json.loads(text, parse_float=Decimal)


def json_text(document: Any) -> str:
    """As `json.dumps`, but decimals keep their digits and doubles are written as in Java."""
    if isinstance(document, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))}: {json_text(v)}" for k, v in document.items()) + "}"
    if isinstance(document, list | tuple):
        return "[" + ", ".join(map(json_text, document)) + "]"
    if isinstance(document, Decimal):
        return str(document)
    if isinstance(document, float):
        text = double_text(document)
        return text if text[-1].isdigit() else json.dumps(text)
    return json.dumps(document)


# -- one payload ----------------------------------------------------------------------------------------------------

_NUMBERS: dict[pa.DataType, tuple[str, Callable[[Any], Any]]] = {
    INT: (">i", int),
    BIGINT: (">q", int),
    DOUBLE: (">d", float),
}


def _plain_text(document: Any) -> str:
    return document if isinstance(document, str) else json_text(document)


def _kafka_bytes(document: Any, kind: pa.DataType | None) -> bytes:
    if kind in _NUMBERS and isinstance(document, int | float | Decimal):
        layout, number = _NUMBERS[kind]
        return struct.pack(layout, number(document))
    return _plain_text(document).encode()


def _kafka_document(payload: bytes, kind: pa.DataType | None) -> Any:
    if kind in _NUMBERS:
        return struct.unpack(_NUMBERS[kind][0], payload)[0]
    return payload.decode(errors="replace")


_TO_BYTES: dict[str, Callable[[Any, pa.DataType | None], bytes | None]] = {
    "JSON": lambda document, kind: json_text(document).encode(),
    "DELIMITED": lambda document, kind: _plain_text(document).encode(),
    "KAFKA": _kafka_bytes,
    "NONE": lambda document, kind: None,
}
_TO_DOCUMENT: dict[str, Callable[[bytes, pa.DataType | None], Any]] = {
    "JSON": lambda payload, kind: read_json(payload),
    "DELIMITED": lambda payload, kind: payload.decode(errors="replace"),
    "KAFKA": _kafka_document,
    "NONE": lambda payload, kind: None,
}


def _form(table: dict[str, Any], format: Format) -> Any:
    if format.name not in table:
        raise BadTestCases(
            f"format {format.name} is not supported in test cases", fix=f"use one of: {', '.join(sorted(table))}"
        )
    return table[format.name]


def _only(columns: Sequence[Field]) -> pa.DataType | None:
    return columns[0].type if len(columns) == 1 else None


def encode_payload(document: Any, format: Format, columns: Sequence[Field]) -> bytes | None:
    """The payload of a document; null is no payload."""
    return None if document is None else _form(_TO_BYTES, format)(document, _only(columns))


def decode_payload(payload: bytes | None, format: Format, columns: Sequence[Field]) -> Any:
    """The document of a payload."""
    return None if payload is None else _form(_TO_DOCUMENT, format)(payload, _only(columns))


# -- a source's records ---------------------------------------------------------------------------------------------


def encode_value(document: Any, source: SourceInfo) -> bytes | None:
    return encode_payload(document, source.value_format, source.relation.value)


def decode_value(payload: bytes | None, source: SourceInfo) -> Any:
    return decode_payload(payload, source.value_format, source.relation.value)


def encode_key(document: Any, window: dict[str, Any] | None, source: SourceInfo) -> bytes | None:
    """A key with its window as Kafka Streams writes it: followed by the start, for a session by end and start."""
    payload = encode_payload(document, source.key_format, source.relation.key)
    if window is None or payload is None:
        return payload
    if window.get("type") == "session":
        return payload + struct.pack(">qq", window["end"], window["start"])
    return payload + struct.pack(">q", window["start"])


def decode_key(payload: bytes | None, source: SourceInfo) -> tuple[Any, dict[str, Any] | None]:
    """The key without its window, and the window."""
    payload, window = _without_window(payload, source)
    return decode_payload(payload, source.key_format, source.relation.key), window


def _without_window(payload: bytes | None, source: SourceInfo) -> tuple[bytes | None, dict[str, Any] | None]:
    kind = source.relation.window
    if kind is None or payload is None:
        return payload, None
    if kind.kind is WindowKind.SESSION:
        end, start = struct.unpack(">qq", payload[-16:])
        return payload[:-16], {"start": start, "end": end, "type": "session"}
    (start,) = struct.unpack(">q", payload[-8:])
    size = int(kind.size.total_seconds() * 1000) if kind.size else 0
    return payload[:-8], {"start": start, "end": start + size, "type": "time"}
