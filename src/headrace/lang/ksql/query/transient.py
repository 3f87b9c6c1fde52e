"""Plans transient queries: with EMIT CHANGES a push query, without it a pull query over current data.

A pull query reads one materialized table, or one stream from its beginning to its end. ksqlDB looks up keys; here any
condition, ORDER BY, aggregates and GROUP BY are allowed, unless a ksqlDB property disables table scans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.errors import BadQuery, NotQueryable, TypeMismatch
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import ROWOFFSET, ROWPARTITION, parts_of
from headrace.lang.ksql.formatter import type_text
from headrace.lang.ksql.properties import (
    PULL_FROM_STREAMS,
    PULL_LIMITS,
    PULL_QUERIES,
    PULL_RANGE_SCANS,
    PULL_TABLE_SCANS,
    is_disabled,
)
from headrace.lang.ksql.query.group_by import aggregates_in
from headrace.lang.ksql.query.partial_plan import PartialPlan
from headrace.lang.ksql.query.select import QueryPlanner
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.actions import ResultColumn, TransientSelect
from headrace.plan.analysis.lookup import Alternative, extract_selection
from headrace.plan.catalog import Catalog
from headrace.plan.expressions import Compare
from headrace.plan.nodes import Filter, Query, Sink, Source, walk
from headrace.plan.relations import Kind
from headrace.plan.rules import optimize
from headrace.plan.sources import SourceInfo

_PUSH = "add EMIT CHANGES for a push query"


def plan_transient_query(
    query: ast.Query, catalog: Catalog, properties: Mapping[str, Any], text: str
) -> TransientSelect:
    """Plans a SELECT. Aggregates without GROUP BY are over all rows."""
    pull = query.emit is None
    if pull:
        _check_clauses(query, properties)
    elif query.order_by:
        raise BadQuery(
            "ORDER BY cannot be combined with EMIT CHANGES", span=query.order_by[0].span, fix="remove ORDER BY"
        )
    if not query.group_by and any(aggregates_in(item.value) for item in query.select):
        query = replace(query, group_by=(ast.IntegerLiteral(1),))
    planner = QueryPlanner(catalog, None, "SELECT", properties, transient=True)
    flow = planner.flow(query)
    sink = Sink(flow.node, flow.relation, "", "", flow.key_format, flow.value_format)
    plan = Query(f"transient_{flow.infos[0].name}_{catalog.number}", sink, text)
    if pull:
        _check_keys(flow.infos[0], query)
        _check_source(flow.infos[0], query, properties)
        _check_condition(plan, query, properties)
    return TransientSelect(plan, not pull, query.limit, _result_columns(flow), planner.order(query, flow.relation))


def _result_columns(flow: PartialPlan) -> tuple[ResultColumn, ...]:
    types = {f.name: f.type for f in flow.relation.columns}
    keys = {f.name for f in flow.relation.key} | set(e.BOUNDS if flow.relation.window else ())
    return tuple(ResultColumn(name, types[name], name in keys) for name in flow.select_names)


# -- restrictions on pull queries -----------------------------------------------------------------------------------


def _check_clauses(query: ast.Query, properties: Mapping[str, Any]) -> None:
    unsupported: list[tuple[Any, str]] = [
        (not isinstance(query.source, ast.SourceRef), "JOIN clauses"),
        (query.union, "UNION ALL"),
        (query.window, "WINDOW clauses"),
        (query.partition_by, "PARTITION BY clauses"),
        (query.distinct, "DISTINCT"),
    ]
    for is_present, what in unsupported:
        if is_present:
            raise BadQuery(f"Pull queries don't support {what}.", span=query.span, fix=_PUSH)
    if is_disabled(properties, PULL_QUERIES):
        raise BadQuery("Pull queries are disabled.", span=query.span, fix=f"set {PULL_QUERIES}=true")
    if query.limit is not None and is_disabled(properties, PULL_LIMITS):
        raise BadQuery(
            "LIMIT clause in pull queries is currently disabled.", span=query.span, fix=f"set {PULL_LIMITS}=true"
        )
    for clause, part in (("SELECT", query.select), ("WHERE", query.where)):
        for name in parts_of(part):
            if isinstance(name, ast.Name) and name.name in (ROWPARTITION, ROWOFFSET):
                message = f"Pull queries don't support the following columns in {clause} clauses: `{name.name}`"
                raise BadQuery(message, span=name.span, fix=_PUSH)


def _check_source(source: SourceInfo, query: ast.Query, properties: Mapping[str, Any]) -> None:
    if source.kind is Kind.STREAM:
        if query.group_by:
            raise BadQuery("Pull queries on streams don't support GROUP BY clauses.", span=query.span, fix=_PUSH)
        if is_disabled(properties, PULL_FROM_STREAMS):
            raise BadQuery(
                "Pull queries on streams are disabled.", span=query.span, fix=f"set {PULL_FROM_STREAMS}=true"
            )
    elif not source.is_materialized:
        raise NotQueryable(
            f"The `{source.name}` table isn't queryable: it is not materialized.",
            span=query.source.span,
            fix=f"CREATE TABLE QUERYABLE_{source.name} AS SELECT * FROM {source.name}; or declare it as SOURCE TABLE",
        )


def _check_keys(source: SourceInfo, query: ast.Query) -> None:
    """Rejects text in an IN on a numeric key: a key lookup does not convert it."""
    numbers = {field.name: field.type for field in source.relation.key if t.is_number(field.type)}
    lists = [part for part in parts_of(query.where) if isinstance(part, ast.InList)]
    for name, item in ((one.value, item) for one in lists for item in one.items):
        if isinstance(name, ast.Name) and name.name in numbers and isinstance(item, ast.StringLiteral):
            column = f"{name.name} {type_text(numbers[name.name])} KEY"
            message = f"'{item.value}' can not be converted to the type of the key column: {column}"
            raise TypeMismatch(message, span=item.span, fix="write a number")


def _check_condition(plan: Query, query: ast.Query, properties: Mapping[str, Any]) -> None:
    source = next(node for node in walk(plan.sink) if isinstance(node, Source))
    if source.relation.kind is Kind.STREAM:
        return
    keys = {field.name for field in source.relation.key}
    nodes = [node for node in walk(optimize(plan).sink) if isinstance(node, Filter) and isinstance(node.input, Source)]
    condition = nodes[-1].condition if nodes else None
    span = query.where.span if query.where is not None else query.span
    if condition is not None and any(_is_null_key(part, keys) for part in e.walk(condition)):
        raise BadQuery("Primary key columns can not be NULL.", span=span, fix="compare the key with a value")
    if not is_disabled(properties, PULL_TABLE_SCANS):
        return
    by_range = not is_disabled(properties, PULL_RANGE_SCANS)
    for alternative in extract_selection(condition).alternatives:
        if not _is_key_lookup(alternative, keys, by_range=by_range):
            raise BadQuery(
                "Query requires table scan to be enabled: the WHERE clause does not specify the whole key.",
                span=span,
                fix=f"compare every key column ({', '.join(sorted(keys))}) with '=', or set {PULL_TABLE_SCANS}=true",
            )


def _is_null_key(part: e.Expression, keys: set[str]) -> bool:
    if isinstance(part, e.In):
        return _is_key(part.value, keys) and any(_is_null(item) for item in part.items)
    if isinstance(part, e.Comparison) and part.op is Compare.EQUAL:
        sides = (part.left, part.right)
        return any(_is_key(one, keys) for one in sides) and any(map(_is_null, sides))
    return False


def _is_key(part: e.Expression, keys: set[str]) -> bool:
    return isinstance(part, e.Column) and part.name in keys


def _is_null(part: e.Expression) -> bool:
    return isinstance(part, e.Literal) and part.value is None


def _is_key_lookup(alternative: Alternative, keys: set[str], *, by_range: bool) -> bool:
    """Whether rows are found by the whole key; or, with `by_range`, by one range of a single-column key."""
    equal = {bound.column for bound in alternative if bound.op is Compare.EQUAL}
    if keys <= equal:
        return True
    ranges = [bound for bound in alternative if bound.column in keys]
    return by_range and len(keys) == 1 == len(ranges)
