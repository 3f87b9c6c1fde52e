"""SELECT DISTINCT: passes the first of equal rows. An extension: ksqlDB has no such statement.

ON is evaluated before the projection, as for GROUP BY, so its columns need not be selected. Without ON the rows of the
result are compared, in all selected columns.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headrace.errors import BadGrouping, BadQuery, BadWindow
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import qualify
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.formatter import expression_text
from headrace.lang.ksql.query.group_by import aggregates_in, window_of
from headrace.lang.ksql.query.partial_plan import PartialPlan
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.nodes import Distinct
from headrace.plan.relations import Kind

CLAUSE = "DISTINCT ON"


def check_distinct(query: ast.Query, distinct: ast.Distinct, flow: PartialPlan) -> None:
    """Rejects clauses that DISTINCT cannot be combined with."""
    if flow.kind is Kind.TABLE:
        raise BadQuery(
            "DISTINCT is not supported on tables, which have one row per key",
            span=distinct.span,
            fix="remove DISTINCT, or read the table's topic as a stream",
        )
    if query.group_by:
        raise BadGrouping(
            "DISTINCT and GROUP BY cannot be combined",
            span=distinct.span,
            fix="remove DISTINCT; GROUP BY returns one row per group",
        )
    for call in aggregates_in(distinct.on):
        raise BadGrouping(
            f"{CLAUSE} does not support aggregate functions: {call.name} is an aggregate function.", span=call.span
        )
    if query.emit is ast.Emit.FINAL:
        raise BadQuery(
            "DISTINCT does not support EMIT FINAL, which is for windowed aggregations",
            span=distinct.span,
            fix="remove EMIT FINAL",
        )
    if query.window is not None:
        _check_window(query.window)


def _check_window(window: ast.WindowClause) -> None:
    if window.kind != "TUMBLING":
        raise BadWindow(
            f"DISTINCT supports only tumbling windows, not {window.kind}",
            span=window.span,
            fix="write WINDOW TUMBLING (SIZE ...)",
        )
    if window.retention is not None or window.idle is not None or window.processing:
        raise BadWindow(
            "A window of DISTINCT supports only SIZE and GRACE PERIOD",
            span=window.span,
            fix="remove RETENTION, IDLE TIMEOUT and PROCESSING TIME",
        )


def distinct_on(flow: PartialPlan, query: ast.Query, types: Mapping[str, pa.DataType]) -> PartialPlan:
    """Passes the first row of each value of ON; all rows if there is no ON."""
    if query.distinct is None or not query.distinct.on:
        return flow
    typer = Typer(flow.scope, CLAUSE, types)
    named = [e.NamedExpression(expression_text(one), _compared_column(one, flow, typer)) for one in query.distinct.on]
    return _apply_distinct(flow, tuple(named), query)


def _compared_column(expr: ast.Expr, flow: PartialPlan, typer: Typer) -> e.Expression:
    """Refers to a key column as such: rows with equal keys are together without a shuffle."""
    full = qualify(expr, flow.scope, CLAUSE)
    if not flow.scope.is_join:  # after a join, the key is not always that of both sides
        for key in flow.keys:
            if full in key.candidates:
                return e.Column(key.type, key.name)
    return typer.typed(full)


def distinct_rows(flow: PartialPlan, query: ast.Query) -> PartialPlan:
    """Passes rows of a projection that equal none before them, for DISTINCT without ON."""
    if query.distinct is None or query.distinct.on:
        return flow
    columns = [e.Column(f.type, f.name) for f in flow.relation.columns if f.name[0] != "$"]  # without hidden keys
    columns += [e.Column(t.BIGINT, name) for name in e.BOUNDS if flow.relation.window is not None]
    return _apply_distinct(flow, tuple(e.NamedExpression(column.name, column) for column in columns), query)


def _apply_distinct(flow: PartialPlan, on: tuple[e.NamedExpression, ...], query: ast.Query) -> PartialPlan:
    return flow.on(Distinct(flow.node, flow.relation, on, window_of(query.window)))
