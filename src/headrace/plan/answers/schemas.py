"""Columns and types as answers have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.plan import types as t
from headrace.plan.answers.columns import FIELDS
from headrace.plan.answers.listing import Table, Typed
from headrace.plan.nodes import Kind, Relation, System, SystemColumn, Window

_MARKS = {Kind.STREAM: "(key)", Kind.TABLE: "(primary key)"}


def fields_table(relation: Relation, system: Sequence[SystemColumn] = ()) -> Table:
    """The columns, the key's first, each with its type and its part."""
    headers = {column.name: column for column in system}
    mark = key_mark(relation.kind, window_type(relation.window))
    keys = [(f.name, Typed(f.type, mark), schema(f.type), "KEY") for f in relation.key]
    values: list[tuple[Any, ...]] = []
    for field in relation.value:
        header = headers.get(field.name)
        mark, part = (_header_mark(header), "HEADER") if header else ("", None)
        values.append((field.name, Typed(field.type, mark), schema(field.type), part))
    return Table("fields", FIELDS, (*keys, *values))


def key_mark(kind: Kind, window: str | None) -> str:
    """What stands behind the type of a column that is a key."""
    return f"{_MARKS[kind]} (Window type: {window})" if window else _MARKS[kind]


def _header_mark(column: SystemColumn) -> str:
    return f"(header('{column.header}'))" if column.kind is System.HEADER else "(headers)"


def window_type(window: Window | None) -> str | None:
    return window.kind.value.upper() if window else None


def schema(kind: pa.DataType) -> dict[str, Any]:
    """The type as ksqlDB's JSON has it."""
    found: dict[str, Any] = {"type": t.type_text(kind).partition("<")[0].partition("(")[0]}
    found |= {"fields": None, "memberSchema": None}
    if t.is_array(kind):
        found["memberSchema"] = schema(kind.value_type)
    elif t.is_map(kind):
        found["memberSchema"] = schema(kind.item_type)
    elif t.is_struct(kind):
        found["fields"] = [{"name": name, "schema": schema(part)} for name, part in t.fields(kind).items()]
    elif t.is_decimal(kind):
        found["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return found


def type_of(told: Mapping[str, Any]) -> pa.DataType:
    """The type that `schema` tells. It does not tell a map's keys: they are taken for strings, as almost all are."""
    name, member = told["type"], told.get("memberSchema") or {}
    if name == "ARRAY":
        return t.array(type_of(member))
    if name == "MAP":
        return t.map_of(t.STRING, type_of(member))
    if name == "STRUCT":
        return t.struct((field["name"], type_of(field["schema"])) for field in told.get("fields") or ())
    if name == "DECIMAL":
        return t.decimal(told["parameters"]["precision"], told["parameters"]["scale"])
    return t.named(name)
