"""The format `json`: one JSON object per payload, its fields typed by the schema.

Unknown fields are ignored; missing fields get the column's default. An integer column accepts 1.0 but not "1"; dates
and times are ISO text or numbers (days, ms of day, ms); bytes are base64 text; decimals are numbers or text and keep
every digit; NaN and the infinities are the texts "NaN", "Infinity" and "-Infinity".

Arrow's JSON reader parses all payloads at once. Where it fails, or would interpret a payload differently from `values`,
the payloads are parsed one by one, which also reports what is wrong with each.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from headrace.component import Component, register
from headrace.errors import BadRecord, WrongType
from headrace.formats.contract import Decoded, Reject
from headrace.formats.json_document import DEPTH, parse_json, parse_json_exactly
from headrace.formats.primitives import Mismatch
from headrace.formats.text_columns import parse_column_vectorized
from headrace.formats.values import column_of, from_json, to_json, unchanged, values_of
from headrace.schema import PRIMITIVES, Schema

_CHUNK = 2048  # one bad payload sends this many to the slow path
_BLOCK = 1 << 20
_TEMPORAL = (PRIMITIVES["date"], PRIMITIVES["timestamp"])
_FAST = tuple(PRIMITIVES[n] for n in ("boolean", "int", "bigint", "float", "double", "string"))
# Arrow's reader accepts these words, and numbers of any size in columns that are not read; and it reads -0 as -0.0.
_NO_JSON = r"[:,\[\s-](NaN|Inf)|[0-9]{300}|[0-9][eE]\+?[0-9]{3}|[:,\[\s]-0[,}\]\s]"


class JsonFormat:
    """JSON objects to typed rows and back."""

    def decode(self, payloads: pa.BinaryArray, schema: Schema) -> Decoded:
        rows = decode_fast(payloads, schema)
        if rows is not None:
            return Decoded(rows, np.arange(len(payloads)), [])
        return _joined([_decode_part(at, part, schema) for at, part in _parts(payloads)], schema)

    def encode(self, rows: pa.RecordBatch, schema: Schema) -> pa.BinaryArray:
        columns = [_written(rows.column(f.name), f.type) for f in schema.fields]
        lines = (dict(zip(schema.names, row, strict=True)) for row in zip(*columns, strict=True))
        return pa.array([orjson.dumps(line) for line in lines], pa.binary())


def _written(column: pa.Array, kind: pa.DataType) -> list[Any]:
    values, convert = values_of(column), to_json(kind)
    return values if convert is unchanged else [convert(v) for v in values]


def _parts(payloads: pa.BinaryArray) -> Iterator[tuple[int, pa.BinaryArray]]:
    for at in range(0, len(payloads), _CHUNK):
        yield at, payloads.slice(at, _CHUNK)


def _decode_part(at: int, payloads: pa.BinaryArray, schema: Schema) -> Decoded:
    rows = decode_fast(payloads, schema) if len(payloads) == _CHUNK else None
    part = decode_one_by_one(payloads, schema) if rows is None else Decoded(rows, np.arange(len(payloads)), [])
    return Decoded(part.rows, part.good + at, [replace(r, index=r.index + at) for r in part.rejects])


def _joined(parts: list[Decoded], schema: Schema) -> Decoded:
    table = pa.Table.from_batches([p.rows for p in parts], schema.arrow)
    good = np.concatenate([np.zeros(0, np.int64), *(p.good for p in parts)])
    return Decoded(_batch(table), good, [r for p in parts for r in p.rejects])


# -- vectorized -----------------------------------------------------------------------------------------------------


def decode_fast(payloads: pa.BinaryArray, schema: Schema) -> pa.RecordBatch | None:
    """All payloads as rows, or None if any of them needs the slow path."""
    joined = _document_lines(payloads)
    if joined is None or not all(f.type in _TEMPORAL or _is_fast(f.type) for f in schema.fields):
        return None
    # Dates and times may be numbers or text; a batch with both is parsed one by one.
    for stand_in in (pa.int64(), pa.string()) if any(f.type in _TEMPORAL for f in schema.fields) else (pa.int64(),):
        table = _read(joined, schema, stand_in)
        if table is not None and table.num_rows == len(payloads):
            return _typed_rows(table, schema)
    return None


def _document_lines(payloads: pa.BinaryArray) -> bytes | None:
    """The payloads as lines, if each of them can only be one object or fail."""
    if len(payloads) == 0 or payloads.null_count:
        return None
    try:
        texts = pc.ascii_trim_whitespace(payloads.cast(pa.string()))
    except pa.ArrowInvalid:
        return None
    whole = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    if not pc.all(whole).as_py() or _may_be_deep(payloads):
        return None
    if pc.any(pc.match_substring_regex(texts, _NO_JSON)).as_py():
        return None
    return b"\n".join(payloads.to_pylist())


def _may_be_deep(payloads: pa.BinaryArray) -> bool:
    if pc.max(pc.binary_length(payloads)).as_py() <= 2 * DEPTH:
        return False
    openings = pc.add(pc.count_substring(payloads, "{"), pc.count_substring(payloads, "["))
    return pc.max(openings).as_py() > DEPTH


def _is_fast(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_fast(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_fast(f.type) for f in kind)
    return kind in _FAST


def _stand_in(kind: pa.DataType, temporal: pa.DataType) -> pa.DataType:
    """The type that Arrow's reader is asked for. A float32 is read as a double first, as a single value would be."""
    if pa.types.is_list(kind):
        return pa.list_(_stand_in(kind.value_type, temporal))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _stand_in(f.type, temporal)) for f in kind])
    if kind in _TEMPORAL:
        return temporal
    return pa.float64() if pa.types.is_float32(kind) else kind


def _read(joined: bytes, schema: Schema, temporal: pa.DataType) -> pa.Table | None:
    wanted = pa.schema([pa.field(f.name, _stand_in(f.type, temporal)) for f in schema.fields])
    longest = max(_BLOCK, len(joined) if len(joined) < 4 * _BLOCK else 4 * _BLOCK)
    try:
        return pyarrow.json.read_json(
            io.BytesIO(joined),
            pyarrow.json.ReadOptions(use_threads=len(joined) > longest, block_size=longest + 1),
            pyarrow.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
        ).select(wanted.names)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _typed_rows(table: pa.Table, schema: Schema) -> pa.RecordBatch | None:
    columns: list[pa.Array] = []
    for field, column in zip(schema.fields, _batch(table).columns, strict=True):
        if field.default is not None and column.null_count:
            return None  # missing or null: Arrow's reader does not distinguish them
        typed = _typed(column, field.type)
        if typed is None or not _finite(typed):
            return None
        columns.append(typed)
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    if kind in _TEMPORAL and pa.types.is_string(column.type):
        return parse_column_vectorized(column, kind)
    try:
        return column.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else column.cast(kind)
    except pa.ArrowInvalid:
        return None


def _finite(column: pa.Array) -> bool:
    if pa.types.is_list(column.type):
        return _finite(column.flatten())
    if pa.types.is_struct(column.type):
        return all(_finite(part) for part in column.flatten())
    return not pa.types.is_floating(column.type) or pc.all(pc.is_finite(column)).as_py() is not False


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


# -- one by one -----------------------------------------------------------------------------------------------------


def decode_one_by_one(payloads: pa.BinaryArray, schema: Schema) -> Decoded:
    """Exact; reports for each invalid payload what is wrong with it."""
    reader = _Reader(schema)
    rows: list[list[Any]] = []
    good: list[int] = []
    rejects: list[Reject] = []
    for i, payload in enumerate(payloads.to_pylist()):
        row = reader.row(payload)
        if isinstance(row, list):
            rows.append(row)
            good.append(i)
        else:
            rejects.append(Reject(i, *row))
    columns = [column_of([row[i] for row in rows], f.type) for i, f in enumerate(schema.fields)]
    return Decoded(pa.RecordBatch.from_arrays(columns, schema=schema.arrow), np.array(good, dtype=np.int64), rejects)


class _Reader:
    """Parses one payload for a schema."""

    def __init__(self, schema: Schema) -> None:
        self.columns = [(f.name, from_json(f.type), values_of(pa.array([f.default], f.type))[0]) for f in schema.fields]
        self.quoted = [orjson.dumps(name) for f in schema.fields for name in _names(f.name, f.type)]
        self.exact = any(_needs_digits(f.type) for f in schema.fields)

    def row(self, payload: bytes | None) -> list[Any] | tuple[str, str]:
        """The row's values, or the code and reason of the rejection."""
        if not payload:
            return BadRecord.code, "the payload is empty"
        try:
            document = parse_json_exactly(payload) if self.exact or self._doubtful(payload) else parse_json(payload)
        except (ValueError, RecursionError) as error:
            return BadRecord.code, f"the payload is not JSON: {error}"
        if not isinstance(document, dict):
            return BadRecord.code, f"the payload is not a JSON object but {type(document).__name__}"
        for name in getattr(document, "twice", ()):
            if any(name == column for column, _, _ in self.columns):
                return BadRecord.code, f'field "{name}" is there twice'
        return self._values(document)

    def _values(self, document: dict[str, Any]) -> list[Any] | tuple[str, str]:
        name = ""
        try:
            row: list[Any] = []
            for name, convert, default in self.columns:
                row.append(convert(document[name]) if name in document else default)
            return row
        except Mismatch as error:
            return WrongType.code, error.reason(name)

    def _doubtful(self, payload: bytes) -> bool:
        """Whether a name may occur twice, which the fast parser would hide."""
        return b"\\u" in payload or any(payload.count(name) > 1 for name in self.quoted)


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


register(Component("format", "json", "One JSON object per payload, typed by the schema.", JsonFormat))
