"""PRINT: renders the records of a topic. Formats are those of a source over the topic, or guessed.

A record that does not match its source's format is rendered as far as its bytes allow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from headrace.lang.listing import Column, Fact, Listing, Table
from headrace.plan.actions import MetadataQuery
from headrace.plan.chain.records import CODEC_ERRORS, RawRecord, key_serde, serde
from headrace.plan.relations import Format
from headrace.plan.sources import SourceInfo
from headrace.plan.types import STRING, type_text
from headrace.schema import Field

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = Format("JSON")
RECORDS = tuple(Column(name, name) for name in ("rowtime", "key", "value", "partition"))
"""The columns of printed records."""
NULL_TEXT = "<null>"
NO_DATA = "unknown - no data processed"


def print_records(request: MetadataQuery, records: Iterable[RawRecord], source: SourceInfo | None) -> Listing:
    """Renders the first `limit` of every `interval`th record."""
    printed = list(islice(islice(records, 0, None, request.interval or 1), request.limit))
    rows = tuple(map(record_cells(source), printed))
    return Listing(
        "print", request.text, record_formats(printed, source), (Table("records", RECORDS, rows, inline=True),)
    )


def record_formats(records: Sequence[RawRecord], source: SourceInfo | None) -> tuple[Fact, Fact]:
    """Returns the formats of keys and values."""
    keys, values = [r.key for r in records], [r.value for r in records]
    return (
        Fact("keyFormat", "Key format", _declared(source, is_key=True) or guess_format(keys)),
        Fact("valueFormat", "Value format", _declared(source, is_key=False) or guess_format(values)),
    )


def record_cells(source: SourceInfo | None) -> Callable[[RawRecord], tuple[Any, ...]]:
    """Returns the function from a record to the cells of `RECORDS`."""
    read_key, read_value = _readers(source)
    return lambda record: (_time(record.time), read_key(record.key), read_value(record.value), record.partition)


def _time(ms: int) -> str:
    """`2026/01/31 23:59:59.000 Z`."""
    try:
        at = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return f"{at:%Y/%m/%d %H:%M:%S}.{at.microsecond // 1000:03} Z"


# -- declared formats -----------------------------------------------------------------------------------------------

Read = Callable[[bytes | None], str]


def _readers(source: SourceInfo | None) -> tuple[Read, Read]:
    if source is None:
        return _safe(_guessed_text), _safe(_guessed_text)
    value = serde(source.value_format, source.payload, is_key=False)
    return (
        _safe(lambda payload: _key_text(payload, source)),
        _safe(lambda payload: _text(payload, source.value_format, source.payload, value.decode)),
    )


def _safe(read: Callable[[bytes], str]) -> Read:
    def safe(payload: bytes | None) -> str:
        if payload is None:
            return NULL_TEXT
        try:
            return read(payload)
        except CODEC_ERRORS:
            return _guessed_text(payload)

    return safe


def _key_text(payload: bytes, source: SourceInfo) -> str:
    relation = source.relation
    decode = key_serde(relation, source.key_format).decode
    if relation.window is None:
        return _text(payload, source.key_format, relation.key, decode)
    decoded = decode(payload)
    if decoded is None:
        return NULL_TEXT
    *key, (start, end) = decoded
    return f"[{_row_text(key, relation.key)}@{start}/{end}]"


def _text(
    payload: bytes, form: Format, columns: Sequence[Field], decode: Callable[[bytes], Sequence[Any] | None]
) -> str:
    if not columns:
        return _guessed_text(payload)
    if form.name in ("JSON", "DELIMITED"):
        return payload.decode()
    row = decode(payload)
    return NULL_TEXT if row is None else _row_text(row, columns, bare=form.name == "KAFKA")


def _row_text(row: Sequence[Any], columns: Sequence[Field], *, bare: bool = True) -> str:
    """Renders a row as JSON; a single `bare` column without its name, and text without quotes."""
    if bare and len(columns) == 1 and columns[0].type == STRING:
        return NULL_TEXT if row[0] is None else row[0]
    form = Format("JSON", (("wrapped", False),)) if bare and len(columns) == 1 else _JSON
    return (serde(form, columns, is_key=False).encode(tuple(row)) or NULL_TEXT.encode()).decode()


def _declared(source: SourceInfo | None, *, is_key: bool) -> str | None:
    """`JSON`, `KAFKA_BIGINT`, `TUMBLING(KAFKA_STRING)`; None without a source."""
    if source is None:
        return None
    columns = source.relation.key if is_key else source.payload
    if not columns:
        return None
    form = (source.key_format if is_key else source.value_format).name
    name = f"KAFKA_{type_text(columns[0].type)}".replace("INTEGER", "INT") if form == "KAFKA" else form
    window = source.relation.window if is_key else None
    return f"{window.kind.value.upper()}({name})" if window else name


# -- guessed formats ------------------------------------------------------------------------------------------------


def guess_format(payloads: Iterable[bytes | None]) -> str:
    """Returns every format that all of the payloads could have."""
    formats: list[str] | None = None
    for payload in payloads:
        if payload is not None:
            possible = _possible(payload)
            formats = possible if formats is None else [name for name in formats if name in possible]
    if formats is None:
        return NO_DATA
    return " or ".join(formats) or "mixed"


def _possible(payload: bytes) -> list[str]:
    if _printable(payload) is None:
        return {4: ["KAFKA_INT"], 8: ["KAFKA_BIGINT", "KAFKA_DOUBLE"]}.get(len(payload), ["UNRECOGNIZED_BYTES"])
    try:
        json.loads(payload)
    except (ValueError, RecursionError):
        return ["KAFKA_STRING"]
    return ["JSON", "KAFKA_STRING"]


def _printable(payload: bytes) -> str | None:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\t\r\n" for c in text) else None


def _guessed_text(payload: bytes) -> str:
    text = _printable(payload)
    if text is not None:
        return text
    return str(int.from_bytes(payload, signed=True)) if len(payload) in (4, 8) else f"0x{payload.hex()}"
