"""Decodes the body of a produce request to rows of its topic: JSON typed by the schema, raw records, or Arrow.

A request is accepted as a whole or not at all. The error lists the rows that do not fit, and the request can be sent
again.

A row of a typed topic is an object of its columns. A record of a raw topic has `key` and `value` (a string is stored as
it is, any other JSON as its source text, in which only white space may change) or `key_base64` and `value_base64`. Both
may have `$timestamp` (ms, or ISO text) and `$headers`, a row also `$deleted`. Other names that begin with `$` are
metadata of rows that were read from the log; they are ignored, so such rows can be sent again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from headrace.contracts import HEADERS_TYPE, Topic
from headrace.errors import BadRecord, BadRequest, BodyTooLarge, UnknownContentType, WrongType
from headrace.formats.contract import Reject
from headrace.formats.json.rows import JsonRows
from headrace.log.stored_rows import CLIENT_COLUMNS, from_records
from headrace.record import Headers, Record
from headrace.schema import Schema
from headrace.serve.api.log_io.json_elements import Element, array_elements, flat_objects, object_members
from headrace.serve.api.parameters import Payload

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
MAX_PRODUCE_BYTES = 64 << 20
"""Maximum bytes of a body, and of the rows decoded from it."""
_MAX_REPORTED = 5  # at most so many rows are reported in an error
_PLAIN = {"key", "value"}
_SPACES = b" \t\n\r"
_NOTHING: Element = (None, "")
_FIELDS = {"key", "value", "key_base64", "value_base64"}


def decode_records(payload: Payload, topic: Topic) -> pa.RecordBatch:
    """The rows in a body."""
    kind = payload.type.partition(";")[0].strip().lower()
    reader = _READERS.get(kind)
    if reader is None:
        raise UnknownContentType(
            f'content type "{kind[:80]}" is not supported for records', fix=f"send one of {', '.join(CONTENT_TYPES)}"
        )
    return reader(payload.content, topic)


def _from_json(content: bytes, topic: Topic) -> pa.RecordBatch:
    if topic.schema.is_raw:
        return _plainly(content) or _raw(object_members(content))
    lines = flat_objects(content)
    if lines is not None:
        with suppress(WrongType):  # possibly split at a wrong place: parse it properly
            return _typed(lines, topic.schema)
    return _typed([text.encode() for _, text in array_elements(content)], topic.schema)


def _from_lines(content: bytes, topic: Topic) -> pa.RecordBatch:
    lines = [line for line in content.split(b"\n") if line and not line.isspace()]
    if topic.schema.is_raw:
        return _raw(object_members(b"[" + b",".join(lines) + b"]"))
    return _typed(lines, topic.schema)


# -- typed rows -----------------------------------------------------------------------------------------------------


def _typed(lines: list[bytes], schema: Schema) -> pa.RecordBatch:
    decoded = JsonRows().decode(pa.array(lines, pa.binary()), schema)
    if decoded.rejects:
        raise _misfits(decoded.rejects, len(lines))
    rows, whole = decoded.rows, b",".join(lines)
    if b'"$' in whole or b"u0024" in whole:
        documents = [one for one, _ in array_elements(b"[" + whole + b"]")]
        for name, column in _own_columns(documents).items():
            rows = rows.append_column(name, column)
    return rows


def _misfits(rejects: Sequence[Reject], of: int) -> WrongType:
    first = "; ".join(f"record {reject.index}: {reject.reason}" for reject in rejects[:_MAX_REPORTED])
    more = f"; and {len(rejects) - _MAX_REPORTED} more" if len(rejects) > _MAX_REPORTED else ""
    what = f"{len(rejects)} of {of} records do not match the topic's schema: {first}{more}"
    return WrongType(
        what, where=f"record {rejects[0].index}", fix="nothing was appended: correct these records and send all again"
    )


def _own_columns(documents: Sequence[Mapping[str, Any]]) -> dict[str, pa.Array]:
    """The columns by which rows set metadata of the log."""
    times = [_time(one.get("$timestamp"), i) for i, one in enumerate(documents)]
    headers = [_headers(one.get("$headers"), i) for i, one in enumerate(documents)]
    deleted = [one.get("$deleted") is True for one in documents]
    columns = {"$timestamp": pa.array(times, pa.int64()), "$deleted": pa.array(deleted, pa.bool_())}
    if any(headers):
        named = [[{"name": n, "value": v} for n, v in one] or None for one in headers]
        columns["$headers"] = pa.array(named, HEADERS_TYPE)
    return columns


def _time(value: Any, at: int) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63):
        return value
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise _bad(at, f'"$timestamp" is {value!r}', "write ms since 1970, or 2026-01-31T12:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _headers(value: Any, at: int) -> Headers:
    """Headers: an object of strings, or an array of objects with `name` and `value` or `value_base64`."""
    pairs = [{"name": n, "value": v} for n, v in value.items()] if isinstance(value, dict) else value or []
    if not isinstance(pairs, list) or not all(isinstance(p, dict) and isinstance(p.get("name"), str) for p in pairs):
        raise _bad(at, "its headers are not valid", 'write {"name": "value"}')
    return tuple((pair["name"], _header(pair, at)) for pair in pairs)


def _header(pair: Mapping[str, Any], at: int) -> bytes:
    if "value_base64" in pair:
        return _decoded(pair["value_base64"], "value", at)
    if not isinstance(pair.get("value"), str):
        raise _bad(at, f'header "{pair["name"]}" is not a string', 'send "value" or "value_base64"')
    return _encoded(pair["value"], pair["name"], at)


def _bad(at: int, what: str, fix: str) -> BadRecord:
    return BadRecord(f"record {at}: {what}", where=f"record {at}", fix=fix)


# -- raw records ----------------------------------------------------------------------------------------------------


def _raw(elements: Sequence[Element]) -> pa.RecordBatch:
    rows = from_records([_record(fields, at) for at, (fields, _) in enumerate(elements)])
    times = [
        _time(fields["$timestamp"][0], at) if "$timestamp" in fields else None
        for at, (fields, _) in enumerate(elements)
    ]
    return rows.append_column("$timestamp", pa.array(times, pa.int64())) if any(t is not None for t in times) else rows


def _plainly(content: bytes) -> pa.RecordBatch | None:
    """Fast path for records with only a key and a value, parsed all at once; None if it does not apply."""
    try:
        document = orjson.loads(content)
    except ValueError:
        return None
    records = document.get("records") if isinstance(document, dict) and len(document) == 1 else document
    if not isinstance(records, list) or not all(isinstance(one, dict) and one.keys() <= _PLAIN for one in records):
        return None
    columns = [[one.get(name) for one in records] for name in ("key", "value")]
    if not all(one is None or type(one) is str for column in columns for one in column):
        if content.translate(None, _SPACES) != orjson.dumps(document).translate(None, _SPACES):
            return None  # for example, a number would be formatted differently
        columns = [
            [one if one is None or type(one) is str else orjson.dumps(one) for one in column] for column in columns
        ]
    return pa.RecordBatch.from_arrays([pa.array(column, pa.binary()) for column in columns], ["key", "value"])


def _record(fields: Any, at: int) -> Record:
    if not isinstance(fields, dict):
        raise _bad(at, "it is not a JSON object", 'write {"key": "...", "value": "..."}')
    if not fields.keys() <= _FIELDS:
        strange = next((name for name in fields if name not in _FIELDS and not name.startswith("$")), None)
        if strange is not None:
            raise _bad(at, f'a record of a raw topic has no "{strange[:80]}"', f"it has {', '.join(sorted(_FIELDS))}")
    headers = _headers(fields["$headers"][0], at) if "$headers" in fields else ()
    return Record(_bytes(fields, "value", at), _bytes(fields, "key", at), headers)


def _bytes(fields: Mapping[str, Element], name: str, at: int) -> bytes | None:
    """A string as it is, any other JSON as its source text, or decoded base64."""
    value, text = fields.get(name, _NOTHING)
    if isinstance(value, str):
        return _encoded(value, name, at)
    if value is not None:
        return text.encode()
    encoded, _ = fields.get(f"{name}_base64", _NOTHING)
    return None if encoded is None else _decoded(encoded, name, at)


def _decoded(encoded: Any, name: str, at: int) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _bad(at, f'"{name}_base64" is not base64', "use A-Z, a-z, 0-9, + and /") from None


def _encoded(text: str, name: str, at: int) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # an unpaired surrogate, which JSON can express and UTF-8 cannot
        raise _bad(at, f'"{name}" is not a string', f'send "{name}_base64"') from None


# -- Arrow ----------------------------------------------------------------------------------------------------------


def _from_arrow(content: bytes, topic: Topic) -> pa.RecordBatch:
    """Decode Arrow. Buffers of clients are fully validated: a wrong offset would read arbitrary memory."""
    batches: list[pa.RecordBatch] = []
    try:
        with pa.ipc.open_stream(content) as stream:
            for batch in stream:
                batch.validate(full=True)
                batches.append(batch)
                if sum(one.nbytes for one in batches) > MAX_PRODUCE_BYTES:
                    raise BodyTooLarge(f"the rows are larger than {MAX_PRODUCE_BYTES} bytes", fix="send them in parts")
            whole = pa.Table.from_batches(batches, stream.schema).combine_chunks()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadRequest(
            f"the body is not an Arrow stream: {error}", fix="write it with pyarrow.ipc.new_stream"
        ) from None
    names = [n for n in whole.column_names if not n.startswith("$") or n in CLIENT_COLUMNS]
    rows = whole.select(names).to_batches()
    return rows[0] if rows else pa.RecordBatch.from_pylist([], topic.schema.arrow)


_READERS: Mapping[str, Callable[[bytes, Topic], pa.RecordBatch]] = {
    JSON: _from_json,
    "": _from_json,
    "application/x-www-form-urlencoded": _from_json,  # curl's default
    NDJSON: _from_lines,
    ARROW: _from_arrow,
}
CONTENT_TYPES = (JSON, NDJSON, ARROW)
