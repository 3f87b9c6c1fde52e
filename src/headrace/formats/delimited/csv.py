"""The format `csv`: one line of delimited fields per payload, typed by the schema.

Quoting follows RFC 4180: a field with the delimiter, a quote or a line break is quoted, and a quote inside is doubled.
An empty field is null; an empty text is `""`. Arrays, maps and structs are JSON text in their field. With a header the
first payload names the columns, in any order; columns that it does not name get their default.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.component import Component, Option, register
from headrace.errors import BadOption, BadRecord, WrongType
from headrace.formats.contract import Decoded, Indices, Reject
from headrace.formats.json.encoder import to_text
from headrace.formats.text_columns import parse_column
from headrace.formats.values import valid_texts, values_of
from headrace.schema import Field, Schema

Cells = list[str | None]


class CsvRows:
    """Delimited text to typed rows and back."""

    def __init__(self, delimiter: str = ",", header: bool = False) -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise BadOption(
                f"delimiter cannot be {delimiter!r}", fix="use one character that is neither a quote nor a line break"
            )
        self.delimiter = delimiter
        self.header = header

    def decode(self, payloads: pa.BinaryArray, schema: Schema) -> Decoded:
        texts, bad = valid_texts(payloads)
        wrong = {int(i): "the payload is not UTF-8 text" for i in bad}
        names: list[str | None] = list(schema.names)
        first = int(self.header and len(texts) > 0)
        if first:
            names = list(_cells(_line(texts[0].as_py() or ""), self.delimiter) or [])
        indices, fields = self._fields(texts, first, len(names), wrong)
        return _decoded(dict(zip(names, fields, strict=True)), indices, schema, wrong)

    def encode(self, rows: pa.RecordBatch, schema: Schema) -> pa.BinaryArray:
        columns = [self._texts(rows.column(f.name), f) for f in schema.fields]
        lines = [self.delimiter.join(row).encode() for row in zip(*columns, strict=True)]
        header = [self.delimiter.join(map(self._quoted, schema.names)).encode()] if self.header else []
        return pa.array(header + lines, pa.binary())

    def _texts(self, column: pa.Array, field: Field) -> list[str]:
        write = to_text(field.type)
        return ["" if v is None else self._quoted(write(v)) for v in values_of(column)]

    def _quoted(self, text: str) -> str:
        if text and not any(c in text for c in (self.delimiter, '"', "\r", "\n")):
            return text
        return '"' + text.replace('"', '""') + '"'

    def _fields(
        self, texts: pa.StringArray, first: int, count: int, wrong: dict[int, str]
    ) -> tuple[Indices, list[pa.StringArray]]:
        """The payloads that have `count` fields, and their fields column by column."""
        lines = pc.replace_substring_regex(texts.slice(first), r"\r?\n$", "")
        quoted = pc.fill_null(pc.match_substring_regex(lines, r'["\r\n]'), True).to_numpy(zero_copy_only=False)
        plain = np.flatnonzero(~quoted)
        split = pc.split_pattern(lines.take(pa.array(plain)), self.delimiter)
        cells: dict[int, Cells] = {}
        for i in np.flatnonzero(quoted):
            text = lines[int(i)].as_py()
            line_cells = None if text is None else _cells(text, self.delimiter)
            if line_cells is not None and len(line_cells) == count:
                cells[int(i) + first] = line_cells
            else:
                wrong.setdefault(int(i) + first, _error_text(line_cells, count))
        lengths = pc.list_value_length(split).to_numpy(zero_copy_only=False)
        for i, length in zip(plain[lengths != count], lengths[lengths != count], strict=True):
            wrong[int(i) + first] = f"the line has {length} fields, expected {count}"
        split = split.filter(pa.array(lengths == count))
        return self._merged(plain[lengths == count] + first, split, cells, count)

    @staticmethod
    def _merged(
        plain: Indices, split: pa.ListArray, cells: dict[int, Cells], count: int
    ) -> tuple[Indices, list[pa.StringArray]]:
        indices = np.concatenate([plain, np.fromiter(cells, np.int64, len(cells))])
        order = np.argsort(indices, kind="stable")
        fields: list[pa.StringArray] = []
        for i in range(count):
            column = pc.list_element(split, i)
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            others = pa.array([row[i] for row in cells.values()], pa.string())
            fields.append(pa.concat_arrays([column, others]).take(pa.array(order)))
        return indices[order], fields


def _decoded(fields: dict[Any, pa.StringArray], indices: Indices, schema: Schema, wrong: dict[int, str]) -> Decoded:
    rejects = {i: Reject(i, BadRecord.code, reason) for i, reason in wrong.items()}
    columns: list[pa.Array] = []
    keep = np.ones(len(indices), np.bool_)
    for field in schema.fields:
        if field.name not in fields:
            columns.append(pa.array([field.default] * len(indices), field.type))
            continue
        column, bad = parse_column(fields[field.name], field.type)
        columns.append(column)
        for i, mismatch in bad.items():
            keep[i] = False
            at = int(indices[i])
            rejects.setdefault(at, Reject(at, WrongType.code, mismatch.reason(field.name)))
    rows = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
    return Decoded(rows.filter(pa.array(keep)), indices[keep], [rejects[i] for i in sorted(rejects)])


def _line(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _error_text(cells: Cells | None, count: int) -> str:
    if cells is None:
        return "the payload is empty, or its quotes or line breaks are misplaced"
    return f"the line has {len(cells)} fields, expected {count}"


def _cells(line: str, delimiter: str) -> Cells | None:
    """The fields of one line; None if it is not one line of well-quoted fields."""
    cells: Cells = []
    at = 0
    while True:
        if line.startswith('"', at):
            text, at = _quoted_cell(line, at + 1)
            if text is None:
                return None
            cells.append(text)
        else:
            end = line.find(delimiter, at)
            text, at = (line[at:], len(line)) if end < 0 else (line[at:end], end)
            if any(c in text for c in '"\r\n'):
                return None
            cells.append(text or None)
        if at == len(line):
            return cells
        if line[at] != delimiter:
            return None
        at += 1


def _quoted_cell(line: str, at: int) -> tuple[str | None, int]:
    start = at
    while True:
        end = line.find('"', at)
        if end < 0:
            return None, at
        if not line.startswith('"', end + 1):
            return line[start:end].replace('""', '"'), end + 1
        at = end + 2


register(
    Component(
        "row format",
        "csv",
        "One line of delimited fields per payload, typed by the schema.",
        CsvRows,
        (
            Option("delimiter", str, "The character between fields.", ","),
            Option("header", bool, "The first payload names the columns.", False),
        ),
    )
)
