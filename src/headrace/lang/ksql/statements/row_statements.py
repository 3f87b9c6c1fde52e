"""Plans INSERT VALUES, DELETE and ASSERT VALUES: literals become values of the columns."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.errors import (
    BadLiteral,
    BadQuery,
    ColumnNotFound,
    HeadraceError,
    SourceReadOnly,
    TypeMismatch,
    WrongKind,
    suggestion,
)
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.coercion import common_type
from headrace.lang.ksql.analyzer.scope import ROWOFFSET, ROWPARTITION, Scope
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.formatter import expression_text, type_text
from headrace.lang.ksql.query.partial_plan import known_source
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.actions import DeleteRows, ExpectRecord, InsertRow
from headrace.plan.casts import caster
from headrace.plan.catalog import Catalog
from headrace.plan.codegen.compiler import evaluator
from headrace.plan.relations import Kind, Relation
from headrace.plan.sources import SourceInfo, check_insertable, check_key
from headrace.plan.steps import Context

_NOTHING = Relation(Kind.STREAM, (), ())
_TEXT_LITERALS = (t.DATE, t.TIME, t.TIMESTAMP)


def plan_insert(statement: ast.InsertValues, catalog: Catalog) -> InsertRow:
    source = check_insertable(known_source(catalog, statement.target, statement))
    values = _by_column(statement.columns, statement.values, source, catalog, statement)
    headers = [c.name for c in source.system if c.name in values]
    if headers:
        raise BadQuery(f"Cannot insert into HEADER columns: {', '.join(headers)}", span=statement.span)
    for name in values.keys() & {ROWPARTITION, ROWOFFSET}:
        raise BadQuery(f"Inserting into column `{name}` is not allowed.", span=statement.span)
    key = tuple(values.get(f.name) for f in source.relation.key)
    check_key(source, key)
    names = [f.name for f in source.payload]
    time = values.get(e.ROWTIME)
    return InsertRow(source, key, tuple(values.get(n) for n in names), time)


def plan_delete(statement: ast.DeleteFrom, catalog: Catalog) -> DeleteRows:
    """Plans a tombstone for every key that the condition names: `key = 1`, `key IN (1, 2)`, several columns by AND."""
    source = known_source(catalog, statement.target, statement)
    if source.kind is not Kind.TABLE:
        raise WrongKind(f"DELETE supports only tables; {source.name} is a stream", span=statement.span)
    if source.read_only:
        raise SourceReadOnly(f"Cannot delete from read-only table: {source.name}", span=statement.span)
    equalities = _equalities(statement.where, source, catalog)
    keys: list[tuple[Any, ...]] = [()]
    for field in source.relation.key:
        if field.name not in equalities:
            raise BadQuery(
                f"DELETE must specify the whole key of {source.name}: {field.name} is missing",
                span=statement.where.span,
                fix=f"write WHERE {' AND '.join(f'{f.name} = ...' for f in source.relation.key)}",
            )
        keys = [(*key, value) for key in keys for value in equalities[field.name]]
    return DeleteRows(source, tuple(keys))


def _equalities(node: ast.Expr, source: SourceInfo, catalog: Catalog) -> dict[str, list[Any]]:
    if isinstance(node, ast.Logical) and node.op == "AND":
        return {**_equalities(node.left, source, catalog), **_equalities(node.right, source, catalog)}
    items: Sequence[ast.Expr] = ()
    name: ast.Expr | None = None
    if isinstance(node, ast.Comparison) and node.op == "=":
        name, items = node.left, (node.right,)
    elif isinstance(node, ast.InList) and not node.negated:
        name, items = node.value, node.items
    field = source.relation.column(name.name) if isinstance(name, ast.Name) else None
    if field is None or field not in source.relation.key:
        raise BadQuery(
            f"DELETE requires comparisons of the key with values, not {expression_text(node)}",
            span=node.span,
            fix="write WHERE key = value, or key IN (...)",
        )
    return {field.name: [_value(item, field.type, field.name, catalog) for item in items]}


def plan_assert_values(statement: ast.AssertValues, catalog: Catalog) -> ExpectRecord:
    source = known_source(catalog, statement.target, statement)
    values = _by_column(statement.columns, statement.values, source, catalog, statement, null=statement.null)
    return ExpectRecord(source, tuple(values), tuple(values.values()), statement.null)


def _by_column(
    columns: Sequence[str],
    values: Sequence[ast.Expr],
    source: SourceInfo,
    catalog: Catalog,
    node: ast.Ast,
    *,
    null: bool = False,
) -> dict[str, Any]:
    default = source.relation.key if null else (*source.relation.key, *source.payload)
    names = list(columns) or [f.name for f in default]
    if len(names) != len(values):
        raise BadQuery(
            f"Expected a value for each column: {len(names)} columns ({', '.join(names)}), {len(values)} values",
            span=node.span,
            fix="write a value for each column, or name the columns before VALUES",
        )
    kinds = {f.name: f.type for f in source.relation.columns}
    kinds |= {e.ROWTIME: t.BIGINT, ROWPARTITION: t.INT, ROWOFFSET: t.BIGINT}
    if source.relation.window is not None:
        kinds |= {e.WINDOWSTART: t.BIGINT, e.WINDOWEND: t.BIGINT}
    row: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if name not in kinds:
            raise ColumnNotFound(
                f"column '{name}' does not exist in {source.kind} {source.name}",
                span=node.span_of(name),
                fix=suggestion(name, kinds, f"columns are: {', '.join(f.name for f in source.relation.columns)}"),
            )
        row[name] = _value(value, kinds[name], name, catalog)
    return row


def _value(node: ast.Expr, kind: pa.DataType, name: str, catalog: Catalog) -> Any:
    """Evaluates a constant expression as a value of the column."""
    expression = Typer(Scope((), ()), "VALUES", catalog.types).typed(node)
    problems: list[Any] = []
    (value,) = evaluator([expression], _NOTHING, Context(report=problems.append), "VALUES")(0, None, ())
    if problems:
        raise BadLiteral(f"{expression_text(node)} cannot be evaluated: {problems[0].reason}", span=node.span)
    if value is None or expression.type == kind:
        return value
    convert = _converter(expression.type, kind)
    if convert is None:
        raise TypeMismatch(
            f"Expected type {type_text(kind)} for field {name} but got "
            f"{expression_text(node)}({type_text(expression.type)})",
            span=node.span,
        )
    try:
        return convert(value)
    except (ValueError, ArithmeticError, HeadraceError) as error:
        raise BadLiteral(
            f"{expression_text(node)} is not a valid {type_text(kind)}: {error}", span=node.span
        ) from error


def _converter(source_type: pa.DataType, kind: pa.DataType) -> Any:
    if source_type == t.STRING and kind == t.BYTES:
        return partial(base64.b64decode, validate=True)
    if source_type == t.STRING:
        return caster(source_type, kind) if kind in _TEXT_LITERALS else None
    if t.is_decimal(source_type) and kind == t.DOUBLE:
        return float
    if t.is_decimal(source_type) and t.is_decimal(kind):
        return caster(source_type, kind)
    return caster(source_type, kind) if common_type([source_type, kind]) == kind else None
