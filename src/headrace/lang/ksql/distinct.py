"""SELECT DISTINCT: of equal rows the first. It is ours: ksqlDB has no statement for it.

What ON names is looked at before the projection, as GROUP BY does it, so it need not be selected. Without ON the rows
of the result are compared, in all that is selected.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headrace.errors import BadGrouping, BadQuery, BadWindow
from headrace.lang.ksql import ast
from headrace.lang.ksql.flow import Flow
from headrace.lang.ksql.grouping import aggregates_in, window_of
from headrace.lang.ksql.scope import qualified
from headrace.lang.ksql.text import expression_text
from headrace.lang.ksql.typer import Typer
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.nodes import Distinct, Kind

CLAUSE = "DISTINCT ON"


def check_distinct(query: ast.Query, distinct: ast.Distinct, flow: Flow) -> None:
    """Refuse what DISTINCT does not go together with."""
    if flow.kind is Kind.TABLE:
        raise BadQuery(
            "DISTINCT is for streams: a table has one row per key",
            span=distinct.span,
            fix="leave DISTINCT out, or read the table's topic as a stream",
        )
    if query.group_by:
        raise BadGrouping(
            "DISTINCT and GROUP BY do not go together",
            span=distinct.span,
            fix="leave DISTINCT out: GROUP BY gives one row per group",
        )
    for call in aggregates_in(distinct.on):
        raise BadGrouping(
            f"{CLAUSE} does not support aggregate functions: {call.name} is an aggregate function.", span=call.span
        )
    if query.emit is ast.Emit.FINAL:
        raise BadQuery(
            "DISTINCT gives the first row, which is known at once: EMIT FINAL is for windowed aggregations",
            span=distinct.span,
            fix="leave EMIT FINAL out",
        )
    if query.window is not None:
        _check_window(query.window)


def _check_window(window: ast.WindowClause) -> None:
    if window.kind != "TUMBLING":
        raise BadWindow(
            f"DISTINCT takes tumbling windows: in {window.kind} ones a row has no single place",
            span=window.span,
            fix="write WINDOW TUMBLING (SIZE ...)",
        )
    if window.retention is not None or window.idle is not None or window.processing:
        raise BadWindow(
            "A window of DISTINCT has a SIZE and a GRACE PERIOD, and nothing else",
            span=window.span,
            fix="leave RETENTION, IDLE TIMEOUT and PROCESSING TIME out",
        )


def first_on(flow: Flow, query: ast.Query, types: Mapping[str, pa.DataType]) -> Flow:
    """The rows that are the first with their values of ON; all of them if there is no ON."""
    if query.distinct is None or not query.distinct.on:
        return flow
    typer = Typer(flow.scope, CLAUSE, types)
    named = [e.Named(expression_text(one), _compared(one, flow, typer)) for one in query.distinct.on]
    return _first(flow, tuple(named), query)


def _compared(written: ast.Expr, flow: Flow, typer: Typer) -> e.Expression:
    """A key is named as such: rows that are equal in it meet without being brought together."""
    full = qualified(written, flow.scope, CLAUSE)
    if not flow.scope.is_join:  # where sides are joined, the key is not always both of theirs
        for key in flow.keys:
            if full in key.viable:
                return e.Column(key.type, key.name)
    return typer.typed(full)


def first_of_rows(flow: Flow, query: ast.Query) -> Flow:
    """The rows of a projection that are equal to none before them, if DISTINCT asks for it without ON."""
    if query.distinct is None or query.distinct.on:
        return flow
    columns = [e.Column(f.type, f.name) for f in flow.relation.columns if f.name[0] != "$"]  # a key that is not seen
    columns += [e.Column(t.BIGINT, name) for name in e.BOUNDS if flow.relation.window is not None]
    return _first(flow, tuple(e.Named(column.name, column) for column in columns), query)


def _first(flow: Flow, on: tuple[e.Named, ...], query: ast.Query) -> Flow:
    return flow.on(Distinct(flow.node, flow.relation, on, window_of(query.window)))
