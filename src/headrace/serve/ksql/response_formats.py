"""Response formats of queries: ksqlDB has two for `/query`, the second for PRINT, and two for `/query-stream`.

| content type | text |
|---|---|
| `application/vnd.ksql.v1+json` | one array of objects: `header`, `row`, `finalMessage` or `errorMessage` |
| `application/vnd.ksqlapi.delimited.v1` | lines: an object with names and types, then an array for each row |
| `application/json` | the same as one array |
| `text/plain` | for people: a line for each record of a topic |

Rows arrive as JSON text and are only concatenated here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Protocol

from headrace.control.serving.result_rows import ResultRow
from headrace.errors import HeadraceError
from headrace.lang.listing import Fact
from headrace.lang.listing_text import inline_row
from headrace.lang.record_printer import RECORDS
from headrace.plan.actions import ResultColumn, TransientSelect
from headrace.plan.relations import Kind
from headrace.plan.types import INT, STRING, identifier_text, type_text
from headrace.serve.ksql.errors import error_document

OBJECTS, LINES, ARRAY = (
    "application/vnd.ksql.v1+json",
    "application/vnd.ksqlapi.delimited.v1",
    "application/json",
)

_ROW_TEXT = attrgetter("text")


@dataclass(frozen=True)
class ResponseHeader:
    """What is known before the rows: the name of the query, and its columns."""

    query: str
    columns: Sequence[ResultColumn]
    facts: Sequence[Fact] = ()

    @classmethod
    def of(cls, select: TransientSelect, query: str) -> ResponseHeader:
        """The key is marked if the query reads a table, as in ksqlDB."""
        marked = is_table(select)
        return cls(query, select.columns if marked else [replace(column, in_key=False) for column in select.columns])

    @classmethod
    def of_records(cls, query: str, formats: Sequence[Fact]) -> ResponseHeader:
        types = [INT if column.name == "partition" else STRING for column in RECORDS]
        return cls(
            query, [ResultColumn(column.name, kind) for column, kind in zip(RECORDS, types, strict=True)], formats
        )


class ResponseFormat(Protocol):
    """Writes one response; its parts are called in this order."""

    content_type: str

    def begin(self, head: ResponseHeader) -> bytes: ...
    def rows(self, rows: Sequence[ResultRow]) -> bytes: ...
    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes: ...


def is_table(select: TransientSelect) -> bool:
    """Whether the query reads a materialized table."""
    return not select.push and select.query.sources[0].relation.kind is Kind.TABLE


class JsonObjects:
    content_type = OBJECTS

    def begin(self, head: ResponseHeader) -> bytes:
        return b"[" + _text({"header": {"queryId": head.query, "schema": _schema(head)}})

    def rows(self, rows: Sequence[ResultRow]) -> bytes:
        return b"".join(
            b',\n{"row":{"columns":%b%b}}' % (row.text, b',"tombstone":true' if row.deleted else b"") for row in rows
        )

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        last = (
            {"errorMessage": error_document(failure)[1]} if failure else {"finalMessage": message} if message else None
        )
        return (b",\n" + _text(last) if last else b"") + b"]\n"


class DelimitedLines:
    content_type = LINES

    def begin(self, head: ResponseHeader) -> bytes:
        return _text(_names(head)) + b"\n"

    def rows(self, rows: Sequence[ResultRow]) -> bytes:
        return b"\n".join([*map(_ROW_TEXT, rows), b""])

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        return _text(error_document(failure)[1]) + b"\n" if failure else b""


class JsonArray:
    content_type = ARRAY

    def begin(self, head: ResponseHeader) -> bytes:
        return b"[" + _text(_names(head))

    def rows(self, rows: Sequence[ResultRow]) -> bytes:
        return b",\n".join([b"", *map(_ROW_TEXT, rows)])

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        return (b",\n" + _text(error_document(failure)[1]) if failure else b"") + b"]\n"


class PlainText(DelimitedLines):
    content_type = "text/plain; charset=utf-8"

    def begin(self, head: ResponseHeader) -> bytes:
        return "".join(f"{fact.heading}: {fact.value}\n" for fact in head.facts).encode()

    def rows(self, rows: Sequence[ResultRow]) -> bytes:
        headings = [column.heading for column in RECORDS]
        return "".join(f"{inline_row(headings, json.loads(row.text))}\n" for row in rows).encode()


def _schema(head: ResponseHeader) -> str:
    columns = ((c, " KEY" if c.in_key else "") for c in head.columns)
    return ", ".join(f"{identifier_text(c.name)} {type_text(c.type)}{mark}" for c, mark in columns)


def _names(head: ResponseHeader) -> dict[str, Any]:
    types = [type_text(column.type) for column in head.columns]
    facts = {fact.name: fact.value for fact in head.facts}
    names = [column.name for column in head.columns]
    return {"queryId": head.query, "columnNames": names, "columnTypes": types, **facts}


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode()
