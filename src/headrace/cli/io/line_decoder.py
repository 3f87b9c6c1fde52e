"""Decodes lines to rows of a topic, by a format or as raw values. A line that does not fit becomes a dead letter.

Rows and dead letters of a batch are one append, so a crash loses neither.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from headrace.cli.io.line_reader import LineBatch
from headrace.contracts import HEADERS_TYPE, Append, Topic
from headrace.errors import BadOption, BadRecord, RecordTooLarge
from headrace.formats.contract import Decoded, Reject
from headrace.formats.lookup import find_row_format
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.schema import RAW, Schema

_FIRST_REJECTS = 3


@dataclass(frozen=True)
class LineFormat:
    """How lines are decoded."""

    format: str
    key: str | None = None
    delimiter: str = ","
    names: bool = False
    headers: Sequence[tuple[str, str]] = ()


class LineDecoder:
    """Turns lines into appends, and counts them."""

    def __init__(self, topic: Topic, dead_letters: str, line_format: LineFormat) -> None:
        self.topic = topic
        self.dead_letters = dead_letters
        self.rows = self.rejects = 0
        self.first_rejects: list[str] = []
        """The place and reason of the first few rejected lines."""
        self._line_format = line_format
        self._header: bytes | None = None
        self._decode = _decoder(topic, line_format)

    def appends(self, lines: LineBatch) -> list[Append]:
        """The appends for a batch of lines; empty if there are no lines."""
        lines = self._after_header(lines)
        if not lines.lines:
            return []
        decoded = self._decode(lines.lines, self._header)
        self.rows += decoded.rows.num_rows
        self.rejects += len(decoded.rejects)
        appends = [Append(self.topic.name, self._with_headers(decoded.rows))] if decoded.rows.num_rows else []
        if decoded.rejects:
            room = _FIRST_REJECTS - len(self.first_rejects)
            self.first_rejects += [f"{lines.place(one.index)}: {one.reason}" for one in decoded.rejects[:room]]
            dead = [self._dead_letter(lines, reject) for reject in decoded.rejects]
            appends.append(Append(self.dead_letters, from_records(dead)))
        return appends

    def new_file(self) -> None:
        """Mark the next line as the first line of a file."""
        self._header = None

    def _after_header(self, lines: LineBatch) -> LineBatch:
        if not self._line_format.names or self._header is not None or not lines.lines:
            return lines
        self._header = lines.lines[0]
        return replace(lines, lines=lines.lines[1:], numbers=lines.numbers[1:])

    def _dead_letter(self, lines: LineBatch, reject: Reject) -> Record:
        texts = {"code": reject.code, "reason": reject.reason, "origin": lines.place(reject.index)}
        return Record(lines.lines[reject.index], headers=tuple((n, t.encode()) for n, t in texts.items()))

    def _with_headers(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._line_format.headers:
            return rows
        headers = pa.scalar([{"name": n, "value": v.encode()} for n, v in self._line_format.headers], HEADERS_TYPE)
        return rows.append_column("$headers", pa.repeat(headers, rows.num_rows))


def _decoder(topic: Topic, line_format: LineFormat) -> Any:
    if topic.schema.is_raw:
        return _RawLines(line_format, topic.spec.max_record_bytes)
    if line_format.key is not None:
        raise BadOption(f'the key of topic "{topic.name}" is in its schema', fix="remove --key")
    return _TypedLines(topic.schema, line_format)


class _TypedLines:
    def __init__(self, schema: Schema, line_format: LineFormat) -> None:
        self._schema = schema
        options = (
            {"delimiter": line_format.delimiter, "header": line_format.names} if line_format.format == "csv" else {}
        )
        self._format = find_row_format(line_format.format, options)

    def __call__(self, lines: list[bytes], header: bytes | None) -> Decoded:
        payloads = [header, *lines] if header is not None else lines
        decoded = self._format.decode(pa.array(payloads, pa.binary()), self._schema)
        shift = len(payloads) - len(lines)
        rejects = [replace(r, index=r.index - shift) for r in decoded.rejects if r.index >= shift]
        return Decoded(decoded.rows, decoded.good - shift, rejects)


class _RawLines:
    """Lines as raw values. One field of a JSON object or of a CSV line may be the key."""

    def __init__(self, line_format: LineFormat, max_bytes: int) -> None:
        self._line_format = line_format
        self._max_bytes = max_bytes
        if line_format.key is not None and line_format.format == "raw":
            raise BadOption("raw lines have no fields to take a key from", fix="use --format json or --format csv")

    def __call__(self, lines: list[bytes], header: bytes | None) -> Decoded:
        keys: list[bytes | None] = []
        good: list[int] = []
        rejects: list[Reject] = []
        key_of = self._reader(header)
        if key_of is None and max(map(len, lines)) <= self._max_bytes:
            return _decoded([None] * len(lines), lines, list(range(len(lines))), [])
        for i, line in enumerate(lines):
            try:
                key = key_of(line) if key_of else None
                self._check(line, key)
            except (BadRecord, RecordTooLarge) as error:
                rejects.append(Reject(i, error.code, error.what))
            else:
                keys.append(key)
                good.append(i)
        return _decoded(keys, [lines[i] for i in good], good, rejects)

    def _check(self, line: bytes, key: bytes | None) -> None:
        size = len(line) + len(key or b"")
        if size > self._max_bytes:
            raise RecordTooLarge(f"the record has {size} bytes, more than {self._max_bytes}")

    def _reader(self, header: bytes | None) -> Any:
        if self._line_format.format == "json":
            return self._json_key
        if self._line_format.format == "raw" or self._line_format.key is None:
            return None
        at = self._column(header)
        return lambda line: self._csv_key(line, at)

    def _json_key(self, line: bytes) -> bytes | None:
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadRecord(f"the line is not JSON: {error}") from None
        name = self._line_format.key
        if name is None:
            return None
        if not isinstance(document, Mapping):
            raise BadRecord(f'the line is not a JSON object with a field "{name}"')
        value = document.get(name)
        return None if value is None else value.encode() if isinstance(value, str) else orjson.dumps(value)

    def _column(self, header: bytes | None) -> int:
        key = self._line_format.key or ""
        names = self._cells(header) if header is not None else []
        if key in names:
            return names.index(key)
        if key.isdigit() and int(key) > 0:
            return int(key) - 1
        raise BadOption(f'there is no column "{key}"', fix="name one of the first line with --names, or its number")

    def _csv_key(self, line: bytes, at: int) -> bytes | None:
        cells = self._cells(line)
        if at >= len(cells):
            raise BadRecord(f"the line has {len(cells)} fields, the key is field {at + 1}")
        return cells[at].encode(errors="surrogateescape") or None

    def _cells(self, line: bytes) -> list[str]:
        text = line.decode(errors="surrogateescape")
        try:
            return next(csv.reader([text], delimiter=self._line_format.delimiter), [])
        except csv.Error as error:
            raise BadRecord(f"the line is not CSV: {error}") from None


def _decoded(keys: list[Any], values: list[bytes], good: list[int], rejects: list[Reject]) -> Decoded:
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    return Decoded(pa.RecordBatch.from_arrays(columns, schema=RAW.arrow), np.array(good, np.int64), rejects)
