"""How an answer is written: ksqlDB has two ways of its `/query`, the second for PRINT, and two of `/query-stream`.

| content type | text |
|---|---|
| `application/vnd.ksql.v1+json` | one array of objects: `header`, `row`, `finalMessage` or `errorMessage` |
| `application/vnd.ksqlapi.delimited.v1` | lines: an object with names and types, then an array for each row |
| `application/json` | the same as one array |
| `text/plain` | for people: a line for each record of a topic |

Rows come as JSON text and are only put together here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.errors import HeadraceError
from headrace.lang.ksql.text import identifier_text, type_text
from headrace.plan.answers.columns import RECORDS
from headrace.plan.answers.listing import Fact
from headrace.plan.answers.rows import Row
from headrace.plan.answers.text import inline
from headrace.plan.catalog import Ask, Shown
from headrace.plan.nodes import Kind
from headrace.plan.types import INT, STRING
from headrace.serve.ksql.refusals import refusal

OBJECTS, LINES, ARRAY = (
    "application/vnd.ksql.v1+json",
    "application/vnd.ksqlapi.delimited.v1",
    "application/json",
)


@dataclass(frozen=True)
class Head:
    """What is known of an answer before its rows: the name of the query, and columns."""

    query: str
    columns: Sequence[Shown]
    facts: Sequence[Fact] = ()

    @classmethod
    def of(cls, ask: Ask, query: str) -> Head:
        """The key is marked where a table is asked, as ksqlDB does."""
        marked = is_table(ask)
        return cls(query, ask.columns if marked else [replace(column, in_key=False) for column in ask.columns])

    @classmethod
    def of_records(cls, query: str, formats: Sequence[Fact]) -> Head:
        types = [INT if column.name == "partition" else STRING for column in RECORDS]
        return cls(query, [Shown(column.name, kind) for column, kind in zip(RECORDS, types, strict=True)], formats)


class Shape(Protocol):
    """Of one answer; the parts come in this order."""

    content_type: str

    def begin(self, head: Head) -> bytes: ...
    def rows(self, rows: Sequence[Row]) -> bytes: ...
    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes: ...


def is_table(ask: Ask) -> bool:
    """Whether it is answered from a table that is kept."""
    return not ask.push and ask.query.sources[0].relation.kind is Kind.TABLE


class Objects:
    content_type = OBJECTS

    def begin(self, head: Head) -> bytes:
        return b"[" + _text({"header": {"queryId": head.query, "schema": _schema(head)}})

    def rows(self, rows: Sequence[Row]) -> bytes:
        return b"".join(
            b',\n{"row":{"columns":%b%b}}' % (row.text, b',"tombstone":true' if row.deleted else b"") for row in rows
        )

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        last = {"errorMessage": refusal(failure)[1]} if failure else {"finalMessage": message} if message else None
        return (b",\n" + _text(last) if last else b"") + b"]\n"


class Lines:
    content_type = LINES

    def begin(self, head: Head) -> bytes:
        return _text(_names(head)) + b"\n"

    def rows(self, rows: Sequence[Row]) -> bytes:
        return b"".join(row.text + b"\n" for row in rows)

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        return _text(refusal(failure)[1]) + b"\n" if failure else b""


class Array:
    content_type = ARRAY

    def begin(self, head: Head) -> bytes:
        return b"[" + _text(_names(head))

    def rows(self, rows: Sequence[Row]) -> bytes:
        return b"".join(b",\n" + row.text for row in rows)

    def end(self, message: str | None = None, failure: HeadraceError | None = None) -> bytes:
        return (b",\n" + _text(refusal(failure)[1]) if failure else b"") + b"]\n"


class Text(Lines):
    content_type = "text/plain; charset=utf-8"

    def begin(self, head: Head) -> bytes:
        return "".join(f"{fact.heading}: {fact.value}\n" for fact in head.facts).encode()

    def rows(self, rows: Sequence[Row]) -> bytes:
        headings = [column.heading for column in RECORDS]
        return "".join(f"{inline(headings, json.loads(row.text))}\n" for row in rows).encode()


def _schema(head: Head) -> str:
    columns = ((c, " KEY" if c.in_key else "") for c in head.columns)
    return ", ".join(f"{identifier_text(c.name)} {type_text(c.type)}{mark}" for c, mark in columns)


def _names(head: Head) -> dict[str, Any]:
    types = [type_text(column.type) for column in head.columns]
    facts = {fact.name: fact.value for fact in head.facts}
    names = [column.name for column in head.columns]
    return {"queryId": head.query, "columnNames": names, "columnTypes": types, **facts}


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode()
