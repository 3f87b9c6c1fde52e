"""Plans CREATE STREAM and CREATE TABLE over a topic, ALTER, and checks replacements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.errors import BadKey, BadName, BadReplacement, BadType, SourceExists, SourceReadOnly, WrongKind
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.types import plan_type
from headrace.lang.ksql.formatter import type_text
from headrace.lang.ksql.statements import source_formats
from headrace.lang.ksql.statements.with_properties import Properties, read_properties
from headrace.plan import types as t
from headrace.plan.catalog import Catalog
from headrace.plan.relations import Kind, Relation, System, SystemColumn, payload
from headrace.plan.sources import SourceInfo
from headrace.schema import Field

HEADERS_TYPE = t.array(t.struct((("KEY", t.STRING), ("VALUE", t.BYTES))))
_KEYS = (ast.Constraint.KEY, ast.Constraint.PRIMARY_KEY)
_HEADERS = (ast.Constraint.HEADERS, ast.Constraint.HEADER)


def plan_create_source(statement: ast.CreateSource, catalog: Catalog, settings: Mapping[str, Any]) -> SourceInfo:
    """Returns the source of a CREATE without a query."""
    properties = read_properties(statement.properties, settings)
    kind = Kind(statement.kind.lower())
    elements = _with_legacy_key(statement, properties, kind)
    relation, system = _columns(elements, kind, catalog.types, properties, statement)
    if relation.window is not None and not relation.key:
        raise BadKey("Windowed sources require a key column.", span=statement.span, fix="declare one as KEY")
    value = properties.value_format(None)
    key = properties.key_format(None)
    stored = replace(relation, value=payload(relation, system))
    key, value = source_formats.checked_formats(stored, properties, key, value, statement)
    if not elements:
        raise BadType("The statement does not define any columns.", span=statement.span, fix="declare them in (...)")
    topic = properties.get("KAFKA_TOPIC") or statement.name
    return SourceInfo(
        statement.name,
        topic,
        relation,
        key,
        value,
        source_formats.time_column(stored, properties),
        system,
        properties.get("PARTITIONS"),
        statement.read_only,
        indexes=source_formats.index_columns(relation, properties, materialized=statement.read_only),
    )


def _with_legacy_key(statement: ast.CreateSource, properties: Properties, kind: Kind) -> tuple[ast.Element, ...]:
    """Converts the older WITH (KEY='col'), which names the column that repeats the record's key, to a key column."""
    name = properties.get("KEY")
    if name is None or any(e.constraint in _KEYS for e in statement.elements):
        return statement.elements
    constraint = ast.Constraint.PRIMARY_KEY if kind is Kind.TABLE else ast.Constraint.KEY
    if all(e.name not in (name, name.upper()) for e in statement.elements):
        raise properties.error("KEY", f"The KEY column set in the WITH clause does not exist: '{name}'")
    return tuple(replace(e, constraint=constraint) if e.name in (name, name.upper()) else e for e in statement.elements)


def _columns(
    elements: Sequence[ast.Element],
    kind: Kind,
    types: Mapping[str, pa.DataType],
    properties: Properties,
    node: ast.Ast,
) -> tuple[Relation, tuple[SystemColumn, ...]]:
    """Returns key columns, payload columns, and the columns from headers."""
    _check_elements(elements, kind, node)
    fields = {e.name: Field(e.name, plan_type(e.type, types)) for e in elements}
    key = tuple(fields[e.name] for e in elements if e.constraint in _KEYS)
    value = tuple(fields[e.name] for e in elements if e.constraint is None)
    headers = [e for e in elements if e.constraint in _HEADERS]
    system = tuple(_header(e, fields[e.name].type) for e in headers)
    _check_headers(headers)
    relation = Relation(kind, key, (*value, *(fields[e.name] for e in headers)), properties.window())
    return relation, system


def _check_elements(elements: Sequence[ast.Element], kind: Kind, node: ast.Ast) -> None:
    names = [e.name for e in elements]
    for element in elements:
        source_formats.check_reserved(element.name, element)
        if names.count(element.name) > 1:
            raise BadName(f"Duplicate column names: `{element.name}`", span=element.span, fix="rename one of them")
        if kind is Kind.TABLE and element.constraint is ast.Constraint.KEY:
            raise BadKey(
                f"Column `{element.name}` is a 'KEY' column: please use 'PRIMARY KEY' for tables.",
                span=element.span,
                fix="write PRIMARY KEY",
            )
        if kind is Kind.STREAM and element.constraint is ast.Constraint.PRIMARY_KEY:
            raise BadKey(
                f"Column `{element.name}` is a 'PRIMARY KEY' column: please use 'KEY' for streams.",
                span=element.span,
                fix="write KEY without PRIMARY",
            )
    if kind is Kind.TABLE and not any(e.constraint in _KEYS for e in elements):
        raise BadKey(
            "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.",
            span=node.span,
            fix="mark a column PRIMARY KEY",
        )


def _header(element: ast.Element, kind: pa.DataType) -> SystemColumn:
    if element.constraint is ast.Constraint.HEADERS:
        if kind != HEADERS_TYPE:
            raise BadType(
                f"Invalid type for HEADERS column: expected {type_text(HEADERS_TYPE)}, got {type_text(kind)}",
                span=element.span,
            )
        return SystemColumn(element.name, System.HEADERS)
    if kind != t.BYTES:
        raise BadType(
            f"Invalid type for HEADER('{element.header}') column: expected BYTES, got {type_text(kind)}",
            span=element.span,
        )
    return SystemColumn(element.name, System.HEADER, element.header)


def _check_headers(headers: Sequence[ast.Element]) -> None:
    whole = [e for e in headers if e.constraint is ast.Constraint.HEADERS]
    if len(whole) > 1 or (whole and len(headers) > 1):
        raise BadName("Schema already contains a HEADERS column.", span=headers[1].span)
    names = [e.header for e in headers]
    for element in headers:
        if names.count(element.header) > 1:
            raise BadName(f"Schema already contains a HEADER('{element.header}') column.", span=element.span)


# -- changes --------------------------------------------------------------------------------------------------------


def check_new(catalog: Catalog, statement: ast.CreateSource | ast.CreateAs) -> SourceInfo | None:
    """Returns the existing source of the statement's name, if it may exist."""
    existing = catalog.sources.get(statement.name)
    if existing is None or statement.if_not_exists:
        return existing
    kind = statement.kind.lower()
    message = f"Cannot add {kind} '{statement.name}': A {existing.kind} with the same name already exists"
    if not statement.or_replace:
        raise SourceExists(message, span=statement.span, fix="choose another name, or CREATE OR REPLACE")
    if existing.kind != kind:
        raise WrongKind(message, span=statement.span)
    return existing


def check_writable(source: SourceInfo, node: ast.Ast) -> SourceReadOnly:
    return SourceReadOnly(
        f"Cannot add {source.kind} '{source.name}': CREATE OR REPLACE is not supported on source {source.kind}s.",
        span=node.span,
    )


def check_replaceable(old: SourceInfo, new: SourceInfo, node: ast.Ast) -> None:
    """Raises unless the new shape can read existing records: the same key, and columns only appended."""
    if old.read_only:
        raise check_writable(old, node)
    keys = [f for f, other in zip(old.relation.key, new.relation.key, strict=False) if f != other]
    keys += old.relation.key[len(new.relation.key) :]
    if keys or len(old.relation.key) != len(new.relation.key):
        raise BadReplacement(
            f"Cannot upgrade {old.kind} `{old.name}`: (Key columns must be identical. The following key columns are "
            f"changed, missing or reordered: [{_column_list(keys or new.relation.key, ' KEY')}])",
            span=node.span,
        )
    ours, theirs = old.relation.value, new.relation.value
    changed = [f for at, f in enumerate(ours) if at >= len(theirs) or theirs[at] != f]
    if changed:
        raise BadReplacement(
            f"Cannot upgrade {old.kind} `{old.name}`: (The following columns are changed, missing or reordered: "
            f"[{_column_list(changed)}])",
            span=node.span,
            fix="add columns at the end only",
        )
    if (old.key_format.name, old.value_format.name, old.topic) != (
        new.key_format.name,
        new.value_format.name,
        new.topic,
    ):
        raise BadReplacement(f"Cannot upgrade {old.kind} `{old.name}`: topic or format differ", span=node.span)


def _column_list(fields: Sequence[Field], suffix: str = "") -> str:
    return ", ".join(f"`{f.name}` {type_text(f.type)}{suffix}" for f in fields)


def plan_alter_source(statement: ast.AlterSource, source: SourceInfo, types: Mapping[str, pa.DataType]) -> SourceInfo:
    """Returns the source with columns added."""
    if source.read_only:
        raise SourceReadOnly(
            f"Cannot alter {source.kind} '{source.name}': ALTER operations are not supported on source {source.kind}s.",
            span=statement.span,
        )
    if source.kind != statement.kind.lower():
        raise WrongKind(f"{source.name} is a {source.kind}, not a {statement.kind.lower()}", span=statement.span)
    value = list(source.relation.value)
    for element in statement.columns:
        if source.relation.column(element.name) or any(f.name == element.name for f in value):
            raise BadName(
                f"Cannot add column `{element.name}` to schema. A column with the same name already exists.",
                span=element.span,
            )
        source_formats.check_reserved(element.name, element)
        value.insert(len(value) - len(source.system), Field(element.name, plan_type(element.type, types)))
    relation = replace(source.relation, value=tuple(value))
    changed = replace(source, relation=relation)
    source_formats.check_format(source.value_format, changed.payload, statement, is_key=False)
    return changed
