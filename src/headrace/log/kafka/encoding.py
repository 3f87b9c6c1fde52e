"""Rows as Kafka messages, and back.

A raw topic's key and value are the message's. In a typed topic the value is a JSON object of all columns (see
`values`) and the key is in the form Kafka's own serializers give it (see `partitioners.key_bytes`); a row that is
`$deleted` has no value, and its key columns come back from the key. `$timestamp` is the message's time, `$headers` are
its headers; the other times travel as headers whose names begin with `hr-`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.types as kinds

from headrace.contracts import SYSTEM_COLUMNS, Topic
from headrace.log.kafka.values import MISFIT, from_json, to_json
from headrace.log.partitioners import key_bytes
from headrace.log.rows import read_schema
from headrace.schema import Field, Schema

KafkaHeaders = list[tuple[str, str | bytes | None]]

# Kafka's clients take a time of 0 for "now" and know none before 1970: such times travel beside the message.
EARLIEST_TIME = 1
TIME_HEADERS = {"hr-timestamp": "$timestamp", "hr-occurred-at": "$occurred_at", "hr-sent-at": "$sent_at"} | {
    "hr-received-at": "$received_at"
}
_HEADER_OF = {column: header for header, column in TIME_HEADERS.items()}


class Message(NamedTuple):
    """A Kafka message, free of the client library."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: KafkaHeaders
    offset: int = -1


class Misfit(NamedTuple):
    """A message that is no row of its topic, and why."""

    message: Message
    reason: str


@dataclass(frozen=True)
class Decoded:
    rows: pa.RecordBatch
    misfits: list[Misfit]


def encode(rows: pa.RecordBatch, topic: Topic) -> list[Message]:
    """Prepared rows (see `rows.prepare`) as messages."""
    keys = key_bytes(rows, topic.schema).to_pylist() if topic.schema.key else [None] * rows.num_rows
    values = _values(rows, topic.schema)
    if "$deleted" in rows.schema.names:
        gone = rows.column("$deleted").to_pylist()
        values = [None if dead else value for value, dead in zip(values, gone, strict=True)]
    times = rows.column("$timestamp").to_pylist()
    return [
        Message(key, value, max(at, EARLIEST_TIME), headers)
        for key, value, at, headers in zip(keys, values, times, _headers(rows, times), strict=True)
    ]


def header_times(times: Iterable[tuple[str, int | None]]) -> KafkaHeaders:
    """Headers for the log's time columns that have a value."""
    return [(_HEADER_OF[column], b"%d" % at) for column, at in times if at is not None]


def _values(rows: pa.RecordBatch, schema: Schema) -> list[bytes | None]:
    if schema.is_raw:
        return rows.column("value").to_pylist()
    columns = zip(*(to_json(rows.column(name)) for name in schema.names), strict=True)
    return [orjson.dumps(dict(zip(schema.names, row, strict=True))) for row in columns]


def _headers(rows: pa.RecordBatch, times: list[int]) -> Iterable[KafkaHeaders]:
    nothing = [None] * rows.num_rows
    given = {
        name: rows.column(name).to_pylist() if name in rows.schema.names else nothing
        for name in ("$headers", "$occurred_at", "$sent_at", "$received_at")
    }
    travelling = [at if at < EARLIEST_TIME else None for at in times]
    for own, *rest in zip(given["$headers"], travelling, *list(given.values())[1:], strict=True):
        yield [(h["name"], h["value"]) for h in own or ()] + header_times(zip(_HEADER_OF, rest, strict=True))


def decode(messages: Sequence[Message], topic: Topic) -> Decoded:
    """Messages as rows with the log's columns; what is no row of the topic is given back with the reason."""
    misfits: list[Misfit] = []
    if topic.schema.is_raw:
        columns = [pa.array([m.key for m in messages], pa.binary()), pa.array([m.value for m in messages], pa.binary())]
        fitting = list(messages)
    else:
        columns, fitting = _typed(messages, topic.schema, misfits)
    columns += _system_columns(fitting)
    return Decoded(pa.RecordBatch.from_arrays(columns, schema=read_schema(topic.schema)), misfits)


def _typed(
    messages: Sequence[Message], schema: Schema, misfits: list[Misfit]
) -> tuple[list[pa.Array], Sequence[Message]]:
    fitting: list[Message] = []
    objects: list[dict[str, Any]] = []
    for message in messages:
        try:
            objects.append(_object(message, schema))
            fitting.append(message)
        except MISFIT as error:
            misfits.append(Misfit(message, str(error)))
    try:
        return [_column(objects, field) for field in schema.fields], fitting
    except MISFIT:
        # Some row does not fit: find which. Rare, so it may be slow.
        reasons = [_reason(one, schema) for one in objects]
        misfits.extend(Misfit(m, reason) for m, reason in zip(fitting, reasons, strict=True) if reason)
        kept = [i for i, reason in enumerate(reasons) if not reason]
        return [_column([objects[i] for i in kept], field) for field in schema.fields], [fitting[i] for i in kept]


def _object(message: Message, schema: Schema) -> dict[str, Any]:
    if message.value is None:
        return dict.fromkeys(schema.names) | _key_values(message.key, schema)
    value = orjson.loads(message.value)
    if not isinstance(value, dict):
        raise TypeError("the value is no JSON object")
    if not value.keys() <= set(schema.names):
        raise ValueError(f"unknown columns: {', '.join(sorted(value.keys() - set(schema.names)))}")
    if message.key is not None and not value.keys() >= set(schema.key):
        return _key_values(message.key, schema) | value
    return value


_ABSENT = object()


def _column(objects: Sequence[dict[str, Any]], field: Field) -> pa.Array:
    if field.default is None:
        return from_json([one.get(field.name) for one in objects], field.type)
    # A default is a value of the column's type already; it stands in where an older row lacks the column.
    values = [one.get(field.name, _ABSENT) for one in objects]
    default = to_json(pa.array([field.default], field.type))[0]
    return from_json([default if value is _ABSENT else value for value in values], field.type)


def _reason(row: dict[str, Any], schema: Schema) -> str | None:
    for field in schema.fields:
        try:
            _column([row], field)
        except MISFIT as error:
            return f'column "{field.name}": {error}'
    return None


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


def _bytes_key(key: bytes) -> Any:
    return to_json(pa.array([key], pa.binary()))[0]


_KEYS = (
    (kinds.is_binary, _bytes_key),
    (kinds.is_string, lambda key: key.decode()),
    # By length, not by type: rows that were written before a key column was widened have the shorter form.
    (kinds.is_integer, lambda key: _number(">q", key)),
    (kinds.is_float64, lambda key: to_json(pa.array([_number(">d", key)], pa.float64()))[0]),
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
