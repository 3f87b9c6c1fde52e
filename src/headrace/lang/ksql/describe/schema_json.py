"""Columns and types in metadata results, as ksqlDB's JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.lang.ksql.describe.table_columns import FIELDS
from headrace.lang.listing import Table, TypeCell
from headrace.plan import types as t
from headrace.plan.relations import Kind, Relation, System, SystemColumn, Window

_MARKS = {Kind.STREAM: "(key)", Kind.TABLE: "(primary key)"}


def fields_table(relation: Relation, system: Sequence[SystemColumn] = ()) -> Table:
    """Returns the columns, key columns first, each with its type and its role."""
    headers = {column.name: column for column in system}
    mark = key_mark(relation.kind, window_type(relation.window))
    keys = [(f.name, TypeCell(f.type, mark), schema_json(f.type), "KEY") for f in relation.key]
    values: list[tuple[Any, ...]] = []
    for field in relation.value:
        header = headers.get(field.name)
        mark, part = (_header_mark(header), "HEADER") if header else ("", None)
        values.append((field.name, TypeCell(field.type, mark), schema_json(field.type), part))
    return Table("fields", FIELDS, (*keys, *values))


def key_mark(kind: Kind, window: str | None) -> str:
    """Returns the mark after the type of a key column."""
    return f"{_MARKS[kind]} (Window type: {window})" if window else _MARKS[kind]


def _header_mark(column: SystemColumn) -> str:
    return f"(header('{column.header}'))" if column.kind is System.HEADER else "(headers)"


def window_type(window: Window | None) -> str | None:
    return window.kind.value.upper() if window else None


def schema_json(kind: pa.DataType) -> dict[str, Any]:
    """Returns the type in ksqlDB's JSON."""
    document: dict[str, Any] = {"type": t.type_text(kind).partition("<")[0].partition("(")[0]}
    document |= {"fields": None, "memberSchema": None}
    if t.is_array(kind):
        document["memberSchema"] = schema_json(kind.value_type)
    elif t.is_map(kind):
        document["memberSchema"] = schema_json(kind.item_type)
    elif t.is_struct(kind):
        document["fields"] = [{"name": name, "schema": schema_json(part)} for name, part in t.fields(kind).items()]
    elif t.is_decimal(kind):
        document["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return document


def type_from_json(document: Mapping[str, Any]) -> pa.DataType:
    """Returns the type of a `schema` object. It lacks the type of a map's keys: STRING is assumed."""
    name, member = document["type"], document.get("memberSchema") or {}
    if name == "ARRAY":
        return t.array(type_from_json(member))
    if name == "MAP":
        return t.map_of(t.STRING, type_from_json(member))
    if name == "STRUCT":
        return t.struct((field["name"], type_from_json(field["schema"])) for field in document.get("fields") or ())
    if name == "DECIMAL":
        return t.decimal(document["parameters"]["precision"], document["parameters"]["scale"])
    return t.primitive_type(name)
