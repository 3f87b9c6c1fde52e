"""Plans a SELECT: FROM, WHERE, table functions, PARTITION BY or GROUP BY, projection; in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.errors import BadGrouping, BadKey, BadQuery, BadWindow, SchemaMismatch, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.further_errors import with_further_errors
from headrace.lang.ksql.analyzer.scope import Scope, ScopeColumn, parts_of, qualify
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.formatter import expression_text, schema_text, type_text
from headrace.lang.ksql.query.distinct import check_distinct, distinct_on, distinct_rows
from headrace.lang.ksql.query.group_by import GroupedQuery, aggregates_in, group_query
from headrace.lang.ksql.query.joins import SourcePlanner, from_clause
from headrace.lang.ksql.query.partial_plan import (
    KeyColumn,
    PartialPlan,
    check_not_windowed,
    known_source,
    rekey,
    source_plan,
    subquery_plan,
    used_names,
)
from headrace.lang.ksql.query.process import apply_operator
from headrace.lang.ksql.query.projection import KeyPurpose, project, select_items
from headrace.lang.ksql.query.time_clauses import emit_when, temporal_join
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.catalog import Catalog
from headrace.plan.functions import find
from headrace.plan.functions.declaration import Function
from headrace.plan.nodes import Explode, Filter, TopN, Union
from headrace.plan.relations import Kind, Relation
from headrace.schema import Field


class QueryPlanner:
    """Plans SELECTs over one catalog. `target` is the name of the source that stores the result, if any."""

    def __init__(
        self,
        catalog: Catalog,
        target: str | None,
        statement: str,
        settings: Mapping[str, Any],
        *,
        keyless: bool = False,
        transient: bool = False,
    ) -> None:
        self.catalog = catalog
        self.types: Mapping[str, pa.DataType] = catalog.types
        self.target = target
        self.statement = statement
        self.settings = settings
        self.keyless = keyless
        """A stream whose key is not selected has no key, as in ksqlDB's newer planner, instead of being rejected."""
        self.transient = transient
        """The result is returned to a client, and is not stored."""

    def flow(self, query: ast.Query) -> PartialPlan:
        """Plans the whole query: the parts of UNION ALL in order, ORDER BY and LIMIT last."""
        flow = self._plan_select(query)
        for other in query.union:
            flow = union(flow, self._plan_select(other), other)
        return self._with_top_n(flow, query)

    def _source_planner(self, used: set[str]) -> SourcePlanner:
        def plan_source(source: ast.SourceRef | ast.SubqueryRef | ast.OperatorRef) -> PartialPlan:
            if isinstance(source, ast.OperatorRef):
                return apply_operator(plan_source(source.source), source)
            if isinstance(source, ast.SubqueryRef):
                inner = QueryPlanner(self.catalog, None, self.statement, self.settings).flow(source.query)
                return subquery_plan(inner, source.alias or "SUBQUERY")
            return source_plan(known_source(self.catalog, source.name, source), source.alias or source.name, used)

        return plan_source

    def _with_top_n(self, flow: PartialPlan, query: ast.Query) -> PartialPlan:
        if self.target is None:
            return flow
        if query.limit is not None and not query.order_by:
            raise BadQuery("LIMIT in a persistent query requires ORDER BY", span=query.span, fix="add ORDER BY")
        if not query.order_by:
            return flow
        if query.limit is None:
            raise BadQuery(
                "ORDER BY in a continuous query requires LIMIT", span=query.order_by[0].span, fix="add LIMIT"
            )
        order = self.order(query, flow.relation)
        relation = replace(flow.relation, kind=Kind.TABLE)
        return flow.on(TopN(flow.node, relation, order, query.limit), relation)

    def order(self, query: ast.Query, relation: Relation) -> tuple[tuple[e.Expression, bool], ...]:
        """Types ORDER BY over the columns of the result."""
        scope = Scope(tuple(ScopeColumn(None, f.name, f.name, f.type) for f in relation.columns), ())
        typer = Typer(scope, "ORDER BY", self.types)
        return tuple((typer.typed(item.value), item.descending) for item in query.order_by)

    def _plan_select(self, query: ast.Query) -> PartialPlan:
        used = used_names(query)
        flow = temporal_join(from_clause(query.source, self._source_planner(used), used), query.source)
        try:
            return self._plan_clauses(flow, query)
        except StatementError as error:
            raise with_further_errors(error, query, flow.scope, self.types) from None

    def _plan_clauses(self, flow: PartialPlan, query: ast.Query) -> PartialPlan:
        self._check(query, flow)
        if query.where is not None:
            flow = self._where(flow, query.where)
        flow, exploded = self._explode(flow, query)
        if query.group_by:
            return self._group_by(flow, query)
        if query.partition_by:
            flow = self._partition_by(flow, query)
        flow = distinct_on(flow, query, self.types)
        items = select_items(query, flow, flow.scope, transient=self.transient)
        if (
            self.keyless
            and not query.partition_by
            and not any(i.expr in k.candidates for k in flow.keys for i in items)
        ):
            flow = rekey(flow, (), (), explicit=True)
        typer = Typer(flow.scope, "SELECT", self.types, _exploded_columns(exploded))
        typed = [typer.typed(item.expr) for item in items]
        result = project(flow, items, typed, KeyPurpose(self.target, self._clause(query)))
        return emit_when(distinct_rows(result, query), query.emit_when)

    def _clause(self, query: ast.Query) -> str:
        if query.partition_by:
            return "partitioning expression"
        return "join expression" if isinstance(query.source, ast.Join) else "key column"

    def _check(self, query: ast.Query, flow: PartialPlan) -> None:
        if self.target is not None and flow.kind is Kind.TABLE and flow.relation.window is not None:
            raise BadQuery(
                "KSQL does not support persistent queries on windowed tables.",
                span=query.source.span,
                fix="read the topic as a stream: CREATE STREAM ... WITH (WINDOW_TYPE=...)",
            )
        if query.distinct is not None:
            check_distinct(query, query.distinct, flow)
        calls = [call for item in query.select for call in aggregates_in(item.value)]
        if not query.group_by:
            self._check_ungrouped(query, calls)
        if query.partition_by and query.group_by:
            raise BadQuery("PARTITION BY and GROUP BY cannot be combined", span=query.partition_by[0].span)
        if query.partition_by and flow.kind is Kind.TABLE:
            raise BadQuery(
                "PARTITION BY is not supported on tables", span=query.partition_by[0].span, fix="use GROUP BY"
            )

    def _check_ungrouped(self, query: ast.Query, calls: list[ast.Call]) -> None:
        if calls:
            call = "COUNT(ROWTIME)" if calls[0].arguments == (ast.Star(),) else expression_text(calls[0])
            raise BadGrouping(
                f"{self.statement} statement does not support aggregate function [{call}] without a GROUP BY clause.",
                span=calls[0].span,
                fix="add GROUP BY",
            )
        if query.having is not None:
            raise BadGrouping("HAVING requires GROUP BY", span=query.having.span, fix="use WHERE")
        if query.window is not None and query.distinct is None:
            raise BadWindow("WINDOW clause requires a GROUP BY clause.", span=query.window.span, fix="add GROUP BY")
        if query.emit is ast.Emit.FINAL:
            raise BadQuery("EMIT FINAL is only supported for windowed aggregations.", span=query.span)

    def _where(self, flow: PartialPlan, where: ast.Expr) -> PartialPlan:
        for part in parts_of(where):
            if isinstance(part, ast.Name):
                flow.scope.resolve(part, "WHERE")
        expr = qualify(where, flow.scope, "WHERE")
        condition = Typer(flow.scope, "WHERE", self.types).condition(expr)
        return flow.on(Filter(flow.node, flow.relation, condition))

    def _explode(self, flow: PartialPlan, query: ast.Query) -> tuple[PartialPlan, dict[ast.Expr, e.Column]]:
        """Plans the table functions of SELECT, which repeat rows and become columns."""
        calls: dict[ast.Call, e.NamedExpression] = {}
        for item in query.select:
            for call, function in _table_calls(item.value):
                expr = qualify(call, flow.scope, "SELECT")
                assert isinstance(expr, ast.Call)
                if expr not in calls:
                    typed = Typer(flow.scope, "SELECT", self.types).call(expr, function)
                    calls[expr] = e.NamedExpression(f"$rows{len(calls)}", typed)
        if not calls:
            return flow, {}
        if flow.kind is Kind.TABLE:
            raise BadQuery("Table functions are not supported on tables, only on streams", span=query.span)
        if query.group_by:
            raise BadGrouping(
                "Table functions cannot be used with aggregations.",
                span=next(iter(calls)).span,
                fix="write the rows of the table function to a stream, and group that stream",
            )
        fields = tuple(Field(n.name, n.type) for n in calls.values())
        relation = replace(flow.relation, value=(*flow.relation.value, *fields))
        node = Explode(flow.node, relation, tuple(calls.values()))
        return flow.on(node, relation), {w: e.Column(n.type, n.name) for w, n in calls.items()}

    def _partition_by(self, flow: PartialPlan, query: ast.Query) -> PartialPlan:
        exprs = tuple(qualify(p, flow.scope, "PARTITION BY") for p in query.partition_by)
        for at, one in enumerate(exprs):
            if one in exprs[:at]:
                raise BadKey(
                    f"Duplicate PARTITION BY expression: {expression_text(one)}", span=query.partition_by[at].span
                )
            for call in aggregates_in(one):
                raise BadGrouping(
                    f"PARTITION BY does not support aggregate functions: {call.name} is an aggregate function.",
                    span=call.span,
                )
        if exprs == (ast.NullLiteral(),):
            return rekey(flow, (), (), explicit=True)
        if len(exprs) == len(flow.keys) and all(w in k.candidates for w, k in zip(exprs, flow.keys, strict=True)):
            return replace(flow, keys=tuple(replace(k, candidates=(w,)) for k, w in zip(flow.keys, exprs, strict=True)))
        check_not_windowed(flow, query.partition_by[0])
        typed = tuple(Typer(flow.scope, "PARTITION BY", self.types).typed(w) for w in exprs)
        keys = tuple(KeyColumn(f"$key{i}", x.type, (w,)) for i, (x, w) in enumerate(zip(typed, exprs, strict=True)))
        for key in keys:
            check_key_type(key.type, query.partition_by[0], expression_text(key.candidates[0]))
        return rekey(flow, keys, typed, explicit=True)

    def _group_by(self, flow: PartialPlan, query: ast.Query) -> PartialPlan:
        groups = group_query(flow, query, self.types, self.settings)
        items = select_items(query, flow, groups.scope, transient=self.transient)
        typer = groups.typer("SELECT")
        typed, over = [], []
        for item in items:
            typed.append(typer.typed(item.expr))
            over.append((item.expr, list(groups.ungrouped)))
            groups.ungrouped.clear()
        having = self._having(groups, query)
        groups.check(over, groups.ungrouped)
        result = groups.plan(having, query)
        return project(result, items, typed, KeyPurpose(self.target, "grouping expression"))

    def _having(self, groups: GroupedQuery, query: ast.Query) -> e.Expression | None:
        if query.having is None:
            return None
        return groups.typer("HAVING").condition(qualify(query.having, groups.scope, "HAVING"))


def union(left: PartialPlan, right: PartialPlan, node: ast.Ast) -> PartialPlan:
    """Merges two streams; the first determines the column names."""
    first, second = left.relation, right.relation
    if Kind.TABLE in (left.kind, right.kind):
        raise BadQuery("UNION ALL supports only streams, not tables", span=node.span)
    same = [f.type for f in first.value] == [f.type for f in second.value]
    if not same or [f.type for f in first.key] != [f.type for f in second.key] or first.window != second.window:
        raise SchemaMismatch(
            f"The parts of UNION ALL have different columns: {schema_text(first)} and {schema_text(second)}",
            span=node.span,
            fix="select columns of the same types in the same order, under the same key",
        )
    return replace(left.on(Union(left.node, right.node, first)), infos=(*left.infos, *right.infos))


def check_key_type(kind: pa.DataType, node: ast.Ast, name: str) -> None:
    """Rejects maps in keys: a key must always have the same bytes, and a map has not."""
    if _has_map(kind):
        raise BadKey(
            "Map keys, including types that contain maps, are not supported as they may lead to unexpected behavior "
            f"due to inconsistent serialization. Key column: `{name.split('.')[-1]}`. Column type: {type_text(kind)}.",
            span=node.span,
        )


def _has_map(kind: pa.DataType) -> bool:
    if t.is_array(kind):
        return _has_map(kind.value_type)
    if t.is_struct(kind):
        return any(_has_map(inner) for inner in t.fields(kind).values())
    return t.is_map(kind)


def _table_calls(node: Any) -> list[tuple[ast.Call, Function]]:
    table_calls = []
    for part in parts_of(node):
        if isinstance(part, ast.Call):
            function = find(part.name)
            if isinstance(function, Function) and function.table:
                table_calls.append((part, function))
    return table_calls


def _exploded_columns(exploded: Mapping[ast.Expr, e.Column]) -> Any:
    return lambda node: exploded.get(node) if isinstance(node, ast.Call) else None
