"""Converts rows to Kafka messages and back.

A raw topic's key and value are the message's. In a typed topic the value is a JSON object of all columns (see
`formats.json.rows`) and the key has the form of Kafka's own serializers (see `partitioners.key_bytes`); a row that is
`$deleted` has no value, and its key columns are read from the key. `$timestamp` is the message's timestamp, `$headers`
are its headers; the other times are headers whose names begin with `hr-`.
"""

from __future__ import annotations

import itertools
import struct
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.types as kinds

from headrace.contracts import SYSTEM_COLUMNS, Topic
from headrace.formats.json.encoder import lossless_double
from headrace.formats.json.rows import JsonRows
from headrace.log.partitioners import key_bytes
from headrace.log.stored_rows import read_schema
from headrace.schema import Schema

KafkaHeaders = list[tuple[str, str | bytes | None]]

# Kafka's clients interpret a timestamp of 0 as "now" and allow none before 1970: such times go into headers.
EARLIEST_TIME = 1
TIME_HEADERS = {"hr-timestamp": "$timestamp", "hr-occurred-at": "$occurred_at", "hr-sent-at": "$sent_at"} | {
    "hr-received-at": "$received_at"
}
_HEADER_OF = {column: header for header, column in TIME_HEADERS.items()}


class Message(NamedTuple):
    """A Kafka message, independent of the client library."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: KafkaHeaders
    offset: int = -1


class RejectedMessage(NamedTuple):
    """A message that is not a valid row of its topic, and why."""

    message: Message
    reason: str


@dataclass(frozen=True)
class DecodedMessages:
    """Rows, rejected messages, and fields that the cached schema does not have: the topic may have new columns."""

    rows: pa.RecordBatch
    misfits: list[RejectedMessage] = field(default_factory=list)
    strange: frozenset[str] = frozenset()


def encode(rows: pa.RecordBatch, topic: Topic) -> list[Message]:
    """Prepared rows (see `stored_rows.prepare_rows`) as messages."""
    return [Message(*fields) for fields in encode_fields(rows, topic)]


Fields = tuple[bytes | None, bytes | None, int, KafkaHeaders]
"""Key, value, timestamp and headers of a message."""


def encode_fields(rows: pa.RecordBatch, topic: Topic) -> Iterator[Fields]:
    """The same as plain tuples, because there may be millions."""
    keys = key_bytes(rows, topic.schema).to_pylist() if topic.schema.key else [None] * rows.num_rows
    values = _values(rows, topic.schema)
    if "$deleted" in rows.schema.names:
        deleted = rows.column("$deleted").to_pylist()
        values = [None if dead else value for value, dead in zip(values, deleted, strict=True)]
    times = rows.column("$timestamp").to_pylist()
    kafka_times = (
        [max(at, EARLIEST_TIME) for at in times] if min(times, default=EARLIEST_TIME) < EARLIEST_TIME else times
    )
    return zip(keys, values, kafka_times, _headers(rows, times), strict=True)


def header_times(times: Iterable[tuple[str, int | None]]) -> KafkaHeaders:
    """Headers for the log's time columns that have a value."""
    return [(_HEADER_OF[column], b"%d" % at) for column, at in times if at is not None]


def _values(rows: pa.RecordBatch, schema: Schema) -> list[bytes | None]:
    if schema.is_raw:
        return rows.column("value").to_pylist()
    return JsonRows().encode(rows, schema).to_pylist()


_BESIDE = ("$headers", "$occurred_at", "$sent_at", "$received_at")


def _headers(rows: pa.RecordBatch, times: list[int]) -> Iterable[KafkaHeaders]:
    columns_beside = [rows.column(name) for name in _BESIDE if name in rows.schema.names]
    if (
        all(column.null_count == len(column) for column in columns_beside)
        and min(times, default=EARLIEST_TIME) >= EARLIEST_TIME
    ):
        return itertools.repeat([], rows.num_rows)
    return _headers_given(rows, times)


def _headers_given(rows: pa.RecordBatch, times: list[int]) -> Iterable[KafkaHeaders]:
    nothing = [None] * rows.num_rows
    columns = {name: rows.column(name).to_pylist() if name in rows.schema.names else nothing for name in _BESIDE}
    travelling = [at if at < EARLIEST_TIME else None for at in times]
    for own, *rest in zip(columns["$headers"], travelling, *list(columns.values())[1:], strict=True):
        yield [(h["name"], h["value"]) for h in own or ()] + header_times(zip(_HEADER_OF, rest, strict=True))


def decode(messages: Sequence[Message], topic: Topic) -> DecodedMessages:
    """Messages as rows with the log's columns; messages that do not fit the topic are returned with the reason."""
    if not topic.schema.is_raw:
        return _decode_typed(messages, topic.schema)
    columns = [pa.array([m.key for m in messages], pa.binary()), pa.array([m.value for m in messages], pa.binary())]
    return DecodedMessages(_rows(columns, messages, topic.schema))


def _decode_typed(messages: Sequence[Message], schema: Schema) -> DecodedMessages:
    documents = [_document(message, schema) for message in messages]
    read = JsonRows().decode(pa.array([one.payload for one in documents], pa.binary()), schema)
    rows = _rows(read.rows.columns, [messages[i] for i in read.good], schema)
    misfits = [RejectedMessage(messages[reject.index], reject.reason) for reject in read.rejects]
    return DecodedMessages(rows, misfits, frozenset().union(*(one.names for one in documents)) - set(schema.names))


def _rows(columns: Sequence[pa.Array], messages: Sequence[Message], schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*columns, *_system_columns(messages)], schema=read_schema(schema))


class Document(NamedTuple):
    """A message's value as JSON, including the key's columns, and the names of its fields."""

    payload: bytes | None
    names: Iterable[str] = ()


def _document(message: Message, schema: Schema) -> Document:
    try:
        if message.value is None:
            return Document(orjson.dumps(dict.fromkeys(schema.names) | _key_values(message.key, schema)))
        names: Iterable[str] = orjson.loads(message.value).keys()
        if message.key is None or all(name in names for name in schema.key):
            return Document(message.value, names)
        key_values = _key_values(message.key, schema)
        return Document(_with_fields(message.value, {n: v for n, v in key_values.items() if n not in names}), names)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Document(message.value)  # unchanged: the format reports what is wrong with it


def _with_fields(payload: bytes, fields: dict[str, Any]) -> bytes:
    """A JSON object with additional fields; the other fields keep every digit."""
    rest = payload.lstrip()[1:]
    comma = b"" if not fields or rest.lstrip().startswith(b"}") else b","
    return b"{" + orjson.dumps(fields)[1:-1] + comma + rest


def _key_values(key: bytes | None, schema: Schema) -> dict[str, Any]:
    """The key columns from a message's key, as JSON values."""
    if key is None or not schema.key:
        return {}
    if len(schema.key) == 1:
        kind = schema[schema.key[0]].type
        for fits, read in _KEYS:
            if fits(kind):
                return {schema.key[0]: read(key)}
    return dict(zip(schema.key, orjson.loads(key), strict=True))


def _number(integer: str, key: bytes) -> int | float:
    return struct.unpack({4: ">i", 8: integer}[len(key)], key)[0]


_KEYS = (
    (kinds.is_binary, lambda key: b64encode(key).decode()),
    (kinds.is_string, lambda key: key.decode()),
    # By length, not by type: rows written before a key column was widened have the shorter form.
    (kinds.is_integer, lambda key: _number(">q", key)),
    (kinds.is_float64, lambda key: lossless_double(_number(">d", key))),
)


def _system_columns(messages: Sequence[Message]) -> list[pa.Array]:
    columns: dict[str, list[Any]] = {name: [None] * len(messages) for name in SYSTEM_COLUMNS}
    for i, message in enumerate(messages):
        columns["$timestamp"][i] = max(message.timestamp, 0)
        columns["$offset"][i] = message.offset
        if message.value is None and message.key is not None:
            columns["$deleted"][i] = True
        if message.headers:
            columns["$headers"][i] = _split_headers(message.headers, columns, i)
    return [pa.array(values, SYSTEM_COLUMNS[name]) for name, values in columns.items()]


def _split_headers(headers: KafkaHeaders, columns: dict[str, list[Any]], i: int) -> list[dict[str, Any]] | None:
    own: list[dict[str, Any]] = []
    for name, value in headers:
        column = TIME_HEADERS.get(name)
        if column and isinstance(value, bytes) and value.removeprefix(b"-").isdigit():
            columns[column][i] = int(value)
        else:
            own.append({"name": name, "value": value})
    return own or None
