"""The row format `json`: one JSON object per payload, its fields typed by the schema.

Unknown fields are ignored; missing fields get the column's default. An integer column accepts 1.0 but not "1"; dates
and times are ISO text or numbers (days, ms of day, ms); bytes are base64 text; decimals are numbers or text and keep
every digit; NaN and the infinities are the texts "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from headrace.component import Component, register
from headrace.errors import BadRecord, WrongType
from headrace.formats.contract import Decoded, Indices, Mask, Reject
from headrace.formats.json.column_reader import JsonColumnReader, can_read
from headrace.formats.json.document import parse_json, parse_json_exactly
from headrace.formats.json.encoder import LOSSLESS, writer
from headrace.formats.json.strict import from_json
from headrace.formats.primitives import Mismatch
from headrace.formats.values import column_of, values_of
from headrace.schema import Field, Schema

_FEW = 64
"""Up to this many payloads, Arrow's reader takes longer than reading them one by one."""


class JsonRows:
    """JSON objects to typed rows and back."""

    def decode(self, payloads: pa.BinaryArray, schema: Schema) -> Decoded:
        """At once where possible; the other payloads one by one, which reports what is wrong with each."""
        if len(payloads) <= _FEW or not can_read(schema.fields, strict=True):
            return decode_one_by_one(payloads, schema)
        columns, read = decode_at_once(payloads, schema)
        if read.all():
            return Decoded(pa.RecordBatch.from_arrays(columns, schema=schema.arrow), np.arange(len(payloads)), [])
        places, left = np.flatnonzero(read), np.flatnonzero(~read)
        rest = decode_one_by_one(payloads.take(pa.array(left)), schema)
        return _merged(schema, [column.filter(read) for column in columns], places, rest, left)

    def encode(self, rows: pa.RecordBatch, schema: Schema) -> pa.BinaryArray:
        columns = [_json_values(rows.column(f.name), f.type) for f in schema.fields]
        lines = (dict(zip(schema.names, row, strict=True)) for row in zip(*columns, strict=True))
        return pa.array([orjson.dumps(line) for line in lines], pa.binary())


def _json_values(column: pa.Array, kind: pa.DataType) -> list[Any]:
    values, write = values_of(column), writer(kind, LOSSLESS)
    return values if write is None else [None if v is None else write(v) for v in values]


def decode_at_once(payloads: pa.BinaryArray, schema: Schema) -> tuple[list[pa.Array], Mask]:
    """The columns, and which payloads were read."""
    batch = JsonColumnReader(schema.fields, bare=False, strict=True).read(payloads)
    read = batch.read & batch.present.to_numpy(zero_copy_only=False)
    for field, column in zip(schema.fields, batch.columns, strict=True):
        if field.default is not None and column.null_count:  # missing or null: Arrow does not distinguish them
            read &= column.is_valid().to_numpy(zero_copy_only=False)
    return batch.columns, read


def decode_one_by_one(payloads: pa.BinaryArray, schema: Schema) -> Decoded:
    """Exact; reports for each invalid payload what is wrong with it."""
    decoder = RowDecoder(schema.fields)
    rows: list[list[Any]] = []
    good: list[int] = []
    rejects: list[Reject] = []
    for i, payload in enumerate(payloads.to_pylist()):
        try:
            rows.append(decoder.decode(payload))
            good.append(i)
        except (BadRecord, WrongType) as error:
            rejects.append(Reject(i, error.code, error.what))
    columns = [column_of([row[i] for row in rows], f.type) for i, f in enumerate(schema.fields)]
    return Decoded(pa.RecordBatch.from_arrays(columns, schema=schema.arrow), np.array(good, np.int64), rejects)


def _merged(schema: Schema, columns: list[pa.Array], places: Indices, rest: Decoded, left: Indices) -> Decoded:
    """Both parts in the payloads' order; `places` and `left` are the indexes of their payloads."""
    good = np.concatenate([places, left[rest.good]])
    order = np.argsort(good, kind="stable")
    merged = [pa.concat_arrays(pair).take(pa.array(order)) for pair in zip(columns, rest.rows.columns, strict=True)]
    rejects = [replace(reject, index=int(left[reject.index])) for reject in rest.rejects]
    return Decoded(pa.RecordBatch.from_arrays(merged, schema=schema.arrow), good[order], rejects)


class RowDecoder:
    """Decodes one payload at a time, exactly."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._columns = [(f.name, from_json(f.type), values_of(pa.array([f.default], f.type))[0]) for f in fields]
        self._quoted = [orjson.dumps(name) for f in fields for name in _names(f.name, f.type)]
        self._exact = any(_needs_digits(f.type) for f in fields)

    def decode(self, payload: bytes | None) -> list[Any]:
        """The row's values; raises BadRecord or WrongType."""
        if not payload:
            raise BadRecord("the payload is empty")
        try:
            document = parse_json_exactly(payload) if self._exact or self._doubtful(payload) else parse_json(payload)
        except (ValueError, RecursionError) as error:
            raise BadRecord(f"the payload is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise BadRecord(f"the payload is not a JSON object but {type(document).__name__}")
        for name in getattr(document, "twice", ()):
            if any(name == column for column, _, _ in self._columns):
                raise BadRecord(f'field "{name}" appears twice')
        return self._values(document)

    def _values(self, document: dict[str, Any]) -> list[Any]:
        name = ""
        try:
            row: list[Any] = []
            for name, convert, default in self._columns:
                row.append(convert(document[name]) if name in document else default)
            return row
        except Mismatch as error:
            raise WrongType(error.reason(name)) from None

    def _doubtful(self, payload: bytes) -> bool:
        """Whether a name may occur twice, which the fast parser would hide."""
        return b"\\u" in payload or any(payload.count(name) > 1 for name in self._quoted)


def _names(name: str, kind: pa.DataType) -> Iterator[str]:
    yield name
    if pa.types.is_list(kind):
        yield from _names(name, kind.value_type)
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _names(field.name, field.type)


def _needs_digits(kind: pa.DataType) -> bool:
    """Whether the exact parser is needed: decimals need every digit, maps every name."""
    if pa.types.is_list(kind):
        return _needs_digits(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_needs_digits(f.type) for f in kind)
    return pa.types.is_map(kind) or pa.types.is_decimal(kind)


register(Component("row format", "json", "One JSON object per payload, typed by the schema.", JsonRows))
