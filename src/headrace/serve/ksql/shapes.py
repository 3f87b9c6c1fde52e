"""How an answer is written: ksqlDB has three ways, one of its `/query` and two of `/query-stream`.

| content type | text |
|---|---|
| `application/vnd.ksql.v1+json` | one array of objects: `header`, `row`, `finalMessage` or `errorMessage` |
| `application/vnd.ksqlapi.delimited.v1` | lines: an object with names and types, then an array for each row |
| `application/json` | the same as one array |

Rows come as JSON text and are only put together here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from headrace.errors import HeadraceError
from headrace.lang.ksql.text import identifier_text, type_text
from headrace.plan.answers.rows import Row
from headrace.plan.catalog import Ask
from headrace.plan.nodes import Kind
from headrace.serve.ksql.refusals import refusal

OBJECTS, LINES, ARRAY = (
    "application/vnd.ksql.v1+json",
    "application/vnd.ksqlapi.delimited.v1",
    "application/json",
)


class Shape(Protocol):
    """Of one answer; the parts come in this order."""

    content_type: str

    def begin(self, ask: Ask, query: str) -> bytes: ...
    def rows(self, rows: Sequence[Row]) -> bytes: ...
    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes: ...


def is_table(ask: Ask) -> bool:
    """Whether it is answered from a table that is kept."""
    return not ask.push and ask.query.sources[0].relation.kind is Kind.TABLE


class Objects:
    content_type = OBJECTS

    def begin(self, ask: Ask, query: str) -> bytes:
        return b"[" + _text({"header": {"queryId": query, "schema": _schema(ask)}})

    def rows(self, rows: Sequence[Row]) -> bytes:
        return b"".join(
            b',\n{"row":{"columns":%b%b}}' % (row.text, b',"tombstone":true' if row.deleted else b"") for row in rows
        )

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        last = {"errorMessage": refusal(failure)[1]} if failure else {"finalMessage": message} if message else None
        return (b",\n" + _text(last) if last else b"") + b"]\n"


class Lines:
    content_type = LINES

    def begin(self, ask: Ask, query: str) -> bytes:
        return _text(_names(ask, query)) + b"\n"

    def rows(self, rows: Sequence[Row]) -> bytes:
        return b"".join(row.text + b"\n" for row in rows)

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        return _text(refusal(failure)[1]) + b"\n" if failure else b""


class Array:
    content_type = ARRAY

    def begin(self, ask: Ask, query: str) -> bytes:
        return b"[" + _text(_names(ask, query))

    def rows(self, rows: Sequence[Row]) -> bytes:
        return b"".join(b",\n" + row.text for row in rows)

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        return (b",\n" + _text(refusal(failure)[1]) if failure else b"") + b"]\n"


def _schema(ask: Ask) -> str:
    """The key is marked where a table is asked, as ksqlDB does."""
    marked = is_table(ask)
    columns = ((c, " KEY" if marked and c.in_key else "") for c in ask.columns)
    return ", ".join(f"{identifier_text(c.name)} {type_text(c.type)}{mark}" for c, mark in columns)


def _names(ask: Ask, query: str) -> dict[str, Any]:
    types = [type_text(column.type) for column in ask.columns]
    return {"queryId": query, "columnNames": [column.name for column in ask.columns], "columnTypes": types}


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode()
