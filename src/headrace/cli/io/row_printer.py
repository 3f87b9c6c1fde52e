"""Prints rows on standard output: as JSON, CSV, raw values or tables, a batch at a time.

JSON is one object per line: the row's columns, then the log's metadata as `$topic`, `$partition`, `$offset` and so on.
`headrace produce` ignores those, so the output can be appended again.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

import orjson
import pyarrow as pa

from headrace.cli.io import output
from headrace.cli.io.control_characters import escape_controls, for_terminal
from headrace.cli.io.csv_injection import escape_formula
from headrace.contracts import Batch
from headrace.formats.delimited.csv import CsvRows
from headrace.formats.json.rows import JsonRows
from headrace.schema import Schema

_TIMES = ("$occurred_at", "$sent_at", "$received_at")
Lines = Iterable[bytes]


class RowPrinter:
    """Prints batches; each is flushed when `rows` returns."""

    def __init__(self, format: str | None, *, names: bool = False) -> None:
        self._format = format
        self._names = names

    def rows(self, batch: Batch, schema: Schema) -> None:
        """Print a batch in the chosen format; by default raw values for a raw topic, JSON for a typed one."""
        form = self._format or ("raw" if schema.is_raw else "json")
        lines = _FORMATS[form](batch, schema)
        if form.startswith("csv") and self._names:
            lines, self._names = [_csv_names(schema, escape_formula if form == "csv" else str), *lines], False
        is_json = form == "json" or (form == "raw" and not schema.is_raw)
        lines = (for_terminal(line, is_json=is_json) for line in lines) if form != "table" else lines
        out = _binary_output()
        out.write(b"".join(line + b"\n" for line in lines))
        out.flush()


def _binary_output() -> BinaryIO:
    sys.stdout.flush()
    return sys.stdout.buffer


def _raw(batch: Batch, schema: Schema) -> Lines:
    if schema.is_raw:
        return [value or b"" for value in batch.rows.column("value").to_pylist()]
    return JsonRows().encode(_columns(batch, schema), schema).to_pylist()


def _json(batch: Batch, schema: Schema) -> Lines:
    rows = _raw_documents(batch) if schema.is_raw else _raw(batch, schema)
    return (row[:-1] + b"," + orjson.dumps(own)[1:] for row, own in zip(rows, log_columns(batch), strict=True))


def _csv_exact(batch: Batch, schema: Schema) -> Lines:
    """CSV that `headrace produce` can read again."""
    return _csv(batch, schema, str)


def _csv(batch: Batch, schema: Schema, text: Callable[[str], str] = escape_formula) -> Lines:
    rows, shape = _columns(batch, schema), schema
    if schema.is_raw:
        shape = Schema.parse("key string key, value string")
        columns = [[bytes_text(v) for v in rows.column(name).to_pylist()] for name in shape.names]
        rows = pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in columns], schema=shape.arrow)
    columns = [_texts(column, text) if column.type == pa.string() else column for column in rows.columns]
    return CsvRows().encode(pa.RecordBatch.from_arrays(columns, schema=rows.schema), shape).to_pylist()


def _texts(column: pa.Array, text: Callable[[str], str]) -> pa.Array:
    return pa.array([None if one is None else text(one) for one in column.to_pylist()], pa.string())


def _csv_names(schema: Schema, text: Callable[[str], str]) -> bytes:
    names = Schema.parse(", ".join(f"c{i} string" for i, _ in enumerate(schema.names)))
    row = pa.RecordBatch.from_arrays([pa.array([text(name)]) for name in schema.names], schema=names.arrow)
    return CsvRows().encode(row, names)[0].as_py()


def _table(batch: Batch, schema: Schema) -> Lines:
    documents = [{**orjson.loads(line)} for line in _json(batch, schema)]
    columns = ["$partition", "$offset", "$timestamp", *schema.names]
    rows = [{name: _cell(document.get(name)) for name in columns} for document in documents]
    console = output.stdout_console()
    with console.capture() as captured:
        console.print(output.table(rows, columns, title=escape_controls(batch.topic)))
    return [captured.get().rstrip("\n").encode()]


def _cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else value


_FORMATS: Mapping[str, Callable[[Batch, Schema], Lines]] = {
    "raw": _raw,
    "json": _json,
    "csv": _csv,
    "csv-exact": _csv_exact,
    "table": _table,
}


def _columns(batch: Batch, schema: Schema) -> pa.RecordBatch:
    return batch.rows.select(list(schema.names))


def _raw_documents(batch: Batch) -> list[bytes]:
    keys, values = (batch.rows.column(name).to_pylist() for name in ("key", "value"))
    pairs = zip(keys, values, strict=True)
    return [orjson.dumps({"key": bytes_text(key), "value": bytes_text(value)}) for key, value in pairs]


def bytes_text(value: bytes | None) -> str | None:
    """Bytes as text; bytes that are not UTF-8 as `base64:...`."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"


def log_columns(batch: Batch) -> list[dict[str, Any]]:
    """The log's metadata of each row; times as ISO text, missing values left out."""
    nothing: list[Any] = [None] * len(batch)
    names = batch.rows.schema.names
    columns: dict[str, list[Any]] = {
        n: batch.rows.column(n).to_pylist() if n in names else nothing for n in (*_TIMES, "$headers")
    }
    places = (batch.rows.column(n).to_pylist() for n in ("$offset", "$timestamp", "$sequence", "$deleted"))
    rows: list[dict[str, Any]] = []
    for i, (offset, timestamp, sequence, deleted) in enumerate(zip(*places, strict=True)):
        own = {"$topic": batch.topic, "$partition": batch.partition, "$offset": offset}
        own["$timestamp"] = output.time_text(timestamp)
        own |= {n: output.time_text(columns[n][i]) for n in _TIMES if columns[n][i] is not None}
        optional = {"$sequence": sequence, "$deleted": deleted or None, "$headers": _headers(columns["$headers"][i])}
        rows.append(own | {name: value for name, value in optional.items() if value is not None})
    return rows


def _headers(headers: list[dict[str, Any]] | None) -> list[dict[str, str | None]] | None:
    return [{"name": h["name"], "value": bytes_text(h["value"])} for h in headers] if headers else None
