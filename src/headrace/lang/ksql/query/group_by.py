"""GROUP BY: plans aggregates per group, and resolves SELECT and HAVING against them.

While SELECT and HAVING are typed, an expression that equals a grouping expression becomes that key column, and an
aggregate call becomes the column of its result. Any other column has no single value per group, and is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from headrace.errors import BadGrouping, BadProperty, BadQuery, BadWindow, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.coercion import cast_to
from headrace.lang.ksql.analyzer.scope import Scope, ScopeColumn, parts_of, qualify, rewrite
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.formatter import expression_text
from headrace.lang.ksql.query.partial_plan import KeyColumn, PartialPlan
from headrace.lang.ksql.query.time_clauses import emit_when, with_panes
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.functions import find
from headrace.plan.functions.aggregates.collect import LIMITS
from headrace.plan.functions.declaration import AggregateFunction, Aggregator
from headrace.plan.functions.signature import resolve
from headrace.plan.nodes import Aggregate, AggregateCall, Filter, Final, ProcessingTime
from headrace.plan.relations import Kind, Relation, Window, WindowKind
from headrace.schema import Field


def is_aggregate(node: Any) -> bool:
    return isinstance(node, ast.Call) and isinstance(find(node.name), AggregateFunction)


def aggregates_in(node: Any) -> list[ast.Call]:
    return [part for part in parts_of(node) if is_aggregate(part)]


def window_of(clause: ast.WindowClause | None) -> Window | None:
    """Returns the plan's window; omitted options have ksqlDB's defaults."""
    if clause is None:
        return None
    kind = WindowKind(clause.kind.lower())
    needed = clause.size + (clause.grace or timedelta(0))
    if clause.retention is not None and clause.retention < needed:
        raise BadWindow(
            f"RETENTION must be at least the sum of SIZE and GRACE PERIOD: {needed}",
            span=clause.span,
            fix="increase RETENTION",
        )
    options = {"grace": clause.grace, "retention": clause.retention, "idle": clause.idle}
    if kind is WindowKind.SESSION:
        if clause.size <= timedelta(0):
            raise BadWindow("the gap of a session window must be greater than zero", span=clause.span)
        return Window(kind, gap=clause.size, **options)
    advance = clause.size if clause.advance is None else clause.advance
    if advance <= timedelta(0):
        raise BadWindow("ADVANCE BY must be greater than zero", span=clause.span)
    return Window(kind, clause.size, None if kind is WindowKind.SLIDING else advance, **options)


@dataclass
class GroupedQuery:
    """The groups of a query, and the aggregates found so far."""

    flow: PartialPlan
    groups: tuple[ast.Expr, ...]
    window: Window | None
    types: Mapping[str, pa.DataType]
    settings: Mapping[str, Any]
    keys: list[e.NamedExpression] = field(default_factory=list)
    calls: dict[ast.Call, AggregateCall] = field(default_factory=dict)
    results: dict[str, pa.DataType] = field(default_factory=dict)
    """Result types of the aggregates, by column."""
    ungrouped: list[ast.Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        typer = Typer(self.flow.scope, "GROUP BY", self.types)
        for at, group in enumerate(self.groups):
            self.keys.append(e.NamedExpression(f"$group{at}", typer.typed(group)))

    @property
    def scope(self) -> Scope:
        """The source's names, and the window's bounds."""
        source = self.flow.scope.sources[0]
        bounds = [ScopeColumn(source, n, n, t.BIGINT, hidden=True) for n in e.BOUNDS if self.window]
        columns = tuple(c for c in self.flow.scope.columns if not (self.window and c.name in e.BOUNDS))
        return Scope((*columns, *bounds), self.flow.scope.sources)

    def typer(self, clause: str) -> Typer:
        return Typer(self.scope, clause, self.types, lambda node: self._resolve(node, clause))

    def _resolve(self, node: ast.Expr, clause: str) -> e.Expression | None:
        if node in self.groups:
            key = self.keys[self.groups.index(node)]
            return e.Column(key.type, key.name)
        if is_aggregate(node):
            assert isinstance(node, ast.Call)
            call = self._aggregate_call(node)
            return e.Column(self.results[call.name], call.name)
        if isinstance(node, ast.Name):
            return self._resolve_column(node, clause)
        return None

    def _resolve_column(self, node: ast.Name, clause: str) -> e.Expression | None:
        if node.name in e.BOUNDS and self.window is not None:
            if clause == "HAVING":
                raise _misplaced_bounds(node)
            return e.Column(t.BIGINT, node.name)
        if node.source is not None or any(c.source is None and c.name == node.name for c in self.flow.scope.columns):
            self.ungrouped.append(node)
        return None

    def _aggregate_call(self, node: ast.Call) -> AggregateCall:
        if node in self.calls:
            return self.calls[node]
        if any(aggregates_in(argument) for argument in node.arguments):
            raise BadGrouping(
                f"Aggregate functions can not be nested: {expression_text(node)}",
                span=node.span,
                fix="use one aggregate function here, and the other in a query over its result",
            )
        function = find(node.name)
        assert isinstance(function, AggregateFunction)
        try:
            call, result = self._resolved(node, function)
            _aggregator(call)  # rejects constants that are out of range
        except StatementError as error:
            error.span = error.span or node.span
            raise
        self.calls[node] = call
        self.results[call.name] = result
        return call

    def _resolved(self, node: ast.Call, function: AggregateFunction) -> tuple[AggregateCall, pa.DataType]:
        for part in parts_of(node.arguments):
            if isinstance(part, ast.Name) and part.name in e.BOUNDS and self.window is not None:
                raise _misplaced_bounds(part)
        typer = Typer(self.flow.scope, f"{node.name}()", self.types)
        typed = [] if node.arguments == (ast.Star(),) else [typer.typed(a) for a in node.arguments]
        overload = resolve(function, [a.type for a in typed])
        arguments = [cast_to(a, k) for a, k in zip(typed, overload.arguments, strict=True)]
        constants = tuple(_constant(arguments[at], node) for at in overload.constants)
        setting = LIMITS.get(function.name)
        if setting is not None and setting in self.settings:
            constants = (_whole_number(setting, self.settings[setting]),)
        rows = tuple(a for at, a in enumerate(arguments) if at not in overload.constants)
        name = f"$aggregate{len(self.calls)}"
        return AggregateCall(name, function.name, overload.overload, rows, constants), overload.result

    # -- plan -------------------------------------------------------------------------------------------------------

    def check(self, select: Sequence[tuple[ast.Expr, list[ast.Expr]]], having: Sequence[ast.Expr]) -> None:
        """Checks the query; `select` has each item with its columns that are neither grouped nor aggregated."""
        if not self.calls:
            raise BadGrouping(
                "GROUP BY requires aggregate functions in either the SELECT or HAVING clause.",
                span=self.groups[0].span,
                fix="add COUNT(*), for example",
            )
        invalid = [expression_text(_unqualified(item)) for item, columns in select if columns]
        if invalid:
            raise BadGrouping(
                f"Non-aggregate SELECT expression(s) not part of GROUP BY: {', '.join(invalid)}\n"
                "Either add the column(s) to the GROUP BY or remove them from the SELECT.",
                span=next(item.span for item, columns in select if columns),
            )
        if having:
            raise BadGrouping(
                f"Non-aggregate HAVING expression not part of GROUP BY: {expression_text(_unqualified(having[0]))}",
                span=having[0].span,
            )

    def plan(self, having: e.Expression | None, query: ast.Query) -> PartialPlan:
        """Returns the plan of the groups' results; key columns are in the order of GROUP BY."""
        key = tuple(Field(k.name, k.type) for k in self.keys)
        value = tuple(Field(c.name, self.results[c.name]) for c in self.calls.values())
        relation = Relation(Kind.TABLE, key, value, self.window)
        flow = self.flow
        if query.window is not None and query.window.processing:
            flow = flow.on(ProcessingTime(flow.node, flow.relation))
        self._check_undo()
        node = Aggregate(flow.node, relation, tuple(self.keys), tuple(self.calls.values()))
        result = replace(
            flow.on(node, relation),
            keys=tuple(KeyColumn(k.name, k.type, (g,)) for k, g in zip(self.keys, self.groups, strict=True)),
            scope=self.scope,
        )
        if query.emit is ast.Emit.FINAL:
            result = result.on(Final(result.node, relation))
        result = emit_when(result, query.emit_when)
        return result if having is None else result.on(Filter(result.node, relation, having))

    def _check_undo(self) -> None:
        if self.flow.kind is not Kind.TABLE:
            return
        bad = [call.function for call in self.calls.values() if _aggregator(call).undo is None]
        if bad:
            names = bad[0] if len(bad) == 1 else f"{', '.join(bad[:-1])} and {bad[-1]}"
            plural = "functions" if len(bad) > 1 else "function"
            raise BadGrouping(
                f"The aggregation {plural} {names} cannot be applied to a table source, only to a stream source.",
                span=self.groups[0].span,
            )


def group_query(
    flow: PartialPlan, query: ast.Query, types: Mapping[str, pa.DataType], settings: Mapping[str, Any]
) -> GroupedQuery:
    """Returns the checked groups of a query."""
    for group in query.group_by:
        for call in aggregates_in(group):
            raise BadGrouping(
                f"GROUP BY does not support aggregate functions: {call.name} is an aggregate function.",
                span=call.span,
                fix="group by columns; conditions on aggregates stand in HAVING",
            )
        for part in parts_of(group):
            if isinstance(part, ast.Name) and part.name in e.BOUNDS and query.window is not None:
                raise _misplaced_bounds(part)
    groups = tuple(qualify(g, flow.scope, "GROUP BY") for g in query.group_by)
    for at, group in enumerate(groups):
        if group in groups[:at]:
            raise BadGrouping(f"Duplicate GROUP BY expression: {expression_text(group)}", span=query.group_by[at].span)
    window = window_of(query.window)
    if window is not None and flow.kind is Kind.TABLE:
        raise BadWindow(
            "WINDOW clause is only supported for streams, not for tables",
            span=query.window.span if query.window else None,
        )
    if query.emit is ast.Emit.FINAL and window is None:
        raise BadQuery("EMIT FINAL is only supported for windowed aggregations.", span=query.span, fix="add a WINDOW")
    if query.emit is ast.Emit.FINAL and window is not None and window.grace is None:
        window = replace(window, grace=timedelta(0))  # EMIT FINAL without a grace emits when the window ends
    window = with_panes(window, query.emit_when)
    return GroupedQuery(flow, groups, window, types, settings)


def _misplaced_bounds(node: ast.Name) -> BadWindow:
    return BadWindow(
        f"Window bounds column {node.name} can only be used in the SELECT clause of windowed aggregations "
        "and can not be passed to aggregate functions.",
        span=node.span,
    )


def _whole_number(setting: str, value: Any) -> int:
    try:
        return int(value)
    except ValueError:
        raise BadProperty(f"{setting} must be an integer, got {value!r}", fix=f"SET '{setting}' = '100';") from None


def _aggregator(call: AggregateCall) -> Aggregator:
    return call.overload.make([a.type for a in call.arguments], call.constants)


def _constant(argument: e.Expression, node: ast.Call) -> Any:
    if not isinstance(argument, e.Literal) or argument.value is None:
        raise BadGrouping(f"Parameter of {node.name} must be a literal", span=node.span)
    return argument.value


def _unqualified(expression: ast.Expr) -> ast.Expr:
    """Removes the source qualifiers, as the user most likely wrote it."""
    return rewrite(expression, lambda p: replace(p, source=None) if isinstance(p, ast.Name) else None)
