"""The format `DELIMITED`: one line of separated fields per row, quoted as by Apache Commons CSV.

Reading: an empty field is null, any field may be quoted, lines after the first are ignored. Writing: a field is quoted
only where that library does it by default, which is more often than needed for a row's first field.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.component import Component, Option, register
from headrace.errors import BadFormatOption, BadRecord
from headrace.formats.column_types import kind_name, refuse_column
from headrace.formats.contract import Format, Serde
from headrace.formats.java_numbers import WHOLE, decimal_text, double_text, parse_double
from headrace.formats.primitives import PRIMITIVES, Convert, Mismatch
from headrace.schema import Field

_FIX = "fix the producer, or declare the columns as it writes them"
_PLAIN_FIRST = re.compile(r"[0-9A-Za-z]")
_SPECIAL_NAMES = {"TAB": "\t", "SPACE": " "}


# -- fields ---------------------------------------------------------------------------------------------------------


def _whole(kind: pa.DataType) -> Convert:
    fit = PRIMITIVES[kind_name(kind)](kind)

    def read(text: str) -> int:
        if not WHOLE.fullmatch(text):
            raise Mismatch(kind_name(kind), text)
        return fit(int(text))

    return read


def _double(kind: pa.DataType) -> Convert:
    def read(text: str) -> float:
        number = parse_double(text)
        if number is None:
            raise Mismatch("double", text)
        return number

    return read


def _decimal(kind: pa.DataType) -> Convert:
    fit = PRIMITIVES["decimal"](kind)
    return lambda text: fit(text.removeprefix("+"))


READERS: dict[str, Callable[[pa.DataType], Convert]] = {
    "boolean": lambda kind: lambda text: text.lower() == "true",  # like Boolean.parseBoolean: anything else is false
    "int": _whole,
    "bigint": _whole,
    "double": _double,
    "decimal": _decimal,
    "string": lambda kind: lambda text: text,
    "bytes": PRIMITIVES["bytes"],
    "date": _whole,
    "time": _whole,
    "timestamp": _whole,
}
WRITERS: dict[str, Callable[[Any], str]] = {
    "boolean": lambda value: "true" if value else "false",
    "double": double_text,
    "decimal": decimal_text,
    "string": lambda value: value,
    "bytes": lambda value: base64.b64encode(value).decode(),
}


# -- lines ----------------------------------------------------------------------------------------------------------


def split(line: str, delimiter: str) -> list[str]:
    """The fields of the first non-empty line. Raises ValueError."""
    if '"' not in line and "\n" not in line and "\r" not in line:
        return line.split(delimiter)
    line = line.lstrip("\r\n")
    cells: list[str] = []
    at = 0
    while True:
        cell, at = _quoted(line, at + 1, delimiter) if line.startswith('"', at) else _bare(line, at, delimiter)
        cells.append(cell)
        if at == len(line) or line[at] in "\r\n":
            return cells
        at += 1


def _bare(line: str, at: int, delimiter: str) -> tuple[str, int]:
    end = at
    while end < len(line) and line[end] != delimiter and line[end] not in "\r\n":
        end += 1
    return line[at:end], end


def _quoted(line: str, at: int, delimiter: str) -> tuple[str, int]:
    start = at
    while True:
        end = line.find('"', at)
        if end < 0:
            raise ValueError("a quote is not closed")
        if not line.startswith('"', end + 1):
            break
        at = end + 2
    after = end + 1
    while after < len(line) and line[after] == " " != delimiter:
        after += 1
    if after < len(line) and line[after] != delimiter and line[after] not in "\r\n":
        raise ValueError("text follows a closing quote")
    return line[start:end].replace('""', '"'), after


def quoting(delimiter: str) -> Callable[[str, bool], str]:
    """A function from a field, and whether it is the row's first, to the text to write."""
    special = re.compile(f'[{re.escape(delimiter)}"\r\n]')

    def quoted(text: str, first: bool) -> str:
        if not text:
            return '""' if first else ""
        is_bare = text[0] > "#" and text[-1] > " " and not special.search(text)
        if is_bare and (not first or _PLAIN_FIRST.match(text)):
            return text
        return '"' + text.replace('"', '""') + '"'

    return quoted


# -- rows -----------------------------------------------------------------------------------------------------------


class DelimitedSerde:
    def __init__(self, columns: Sequence[Field], delimiter: str, *, is_key: bool) -> None:
        self.names = [column.name for column in columns]
        self.delimiter = delimiter
        self.bare_key = is_key and len(columns) == 1
        self.readers = [READERS[kind_name(column.type)](column.type) for column in columns]
        self.writers = [WRITERS.get(kind_name(column.type), str) for column in columns]
        self.quoted = quoting(delimiter)

    def decode(self, payload: bytes | None) -> tuple[Any, ...] | None:
        if payload is None:
            return None
        row: list[Any] = []
        try:
            for read, cell in zip(self.readers, self._cells(payload), strict=True):
                row.append(read(cell) if cell else None)
        except Mismatch as error:
            raise BadRecord(error.reason(self.names[len(row)]), fix=_FIX) from None
        return tuple(row)

    def encode(self, row: Sequence[Any] | None) -> bytes | None:
        if row is None or (self.bare_key and row[0] is None):
            return None
        quoted = self.quoted
        cells = [
            "" if value is None else quoted(write(value), i == 0)
            for i, (write, value) in enumerate(zip(self.writers, row, strict=True))
        ]
        return self.delimiter.join(cells).encode(errors="replace")

    def _cells(self, payload: bytes) -> list[str]:
        try:
            cells = split(payload.decode(), self.delimiter)
        except ValueError as error:
            raise BadRecord(f"the payload is not a delimited line: {error}", fix=_FIX) from None
        if len(cells) != len(self.readers):
            raise BadRecord(f"the line has {len(cells)} fields, not {len(self.readers)}", fix=_FIX)
        return cells


class DelimitedFormat(Format):
    wraps = False

    def __init__(self, delimiter: str = ",") -> None:
        self.delimiter = _delimiter(delimiter)

    def _check(self, columns: Sequence[Field], *, is_key: bool) -> None:
        for column in columns:
            if kind_name(column.type) not in READERS:
                refuse_column("DELIMITED", column, column.type, "use JSON, AVRO or PROTOBUF for it")

    def _serde(self, columns: Sequence[Field], *, is_key: bool, bare: bool) -> Serde:
        return DelimitedSerde(columns, self.delimiter, is_key=is_key)


def _delimiter(text: str) -> str:
    if not text.strip():
        raise BadFormatOption(
            "Delimiter cannot be empty, if you meant to have a tab or space for delimiter, please use the special "
            "values 'TAB' or 'SPACE'",
            fix="for example ';'",
        )
    named = _SPECIAL_NAMES.get(text.upper(), text)
    if len(named) != 1 or named in '"\r\n':
        raise BadFormatOption(
            f"Invalid delimiter value: '{text}'. Delimiter must be a single character or TAB,SPACE",
            fix="for example ';'",
        )
    return named


register(
    Component(
        "format",
        "delimited",
        "One line of separated fields per row.",
        DelimitedFormat,
        (Option("delimiter", str, "The character between fields, or TAB or SPACE.", ","),),
    )
)
