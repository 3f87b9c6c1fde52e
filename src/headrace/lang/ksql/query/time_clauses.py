"""Time extensions of KSQL: triggers (EMIT ... EVERY and others), and joins as of a row's own time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from headrace.errors import BadJoin, BadQuery, BadWindow
from headrace.lang.ksql import ast
from headrace.lang.ksql.query.partial_plan import PartialPlan
from headrace.plan import expressions as e
from headrace.plan.nodes import Aggregate, Emit, Node, StreamTableJoin
from headrace.plan.relations import Kind, Window, WindowKind
from headrace.plan.rewrite import relation_of, rewrite_nodes
from headrace.plan.triggers import Every, Panes, Results, Trigger

DEFAULT_HISTORY = timedelta(days=1)
"""How far back a table's versions are stored, unless specified."""


# -- triggers -------------------------------------------------------------------------------------------------------


def emit_when(flow: PartialPlan, when: ast.EmitWhen | None) -> PartialPlan:
    """Holds changes back until the trigger fires."""
    if when is None:
        return flow
    if flow.kind is Kind.STREAM:
        raise BadQuery(
            "This EMIT clause applies to tables, but the result is a stream",
            span=when.span,
            fix="write EMIT CHANGES, or add GROUP BY",
        )
    if any(isinstance(trigger, Every) and not trigger.period for trigger in _pane_triggers(when.trigger)):
        raise BadQuery(
            "EVERY requires a duration greater than zero", span=when.span, fix="write EVERY 1 SECOND, for example"
        )
    if isinstance(when.trigger, Panes) and flow.relation.window is None:
        raise BadQuery("EMIT ON TIME requires a window", span=when.span, fix="add a WINDOW, or write EMIT CHANGES")
    if when.results is Results.DISCARDING and not _can_discard(flow.node):
        raise BadQuery(
            "DISCARDING requires GROUP BY over a stream, and does not support sliding windows",
            span=when.span,
            fix="remove DISCARDING",
        )
    return flow.on(Emit(flow.node, flow.relation, when.trigger, when.results))


def _pane_triggers(trigger: Trigger) -> tuple[Trigger | None, ...]:
    return (trigger.early, trigger.late) if isinstance(trigger, Panes) else (trigger,)


def _can_discard(node: Node) -> bool:
    if not isinstance(node, Aggregate) or relation_of(node.input).kind is Kind.TABLE:
        return False
    window = node.relation.window
    return window is None or window.kind is not WindowKind.SLIDING


def with_panes(window: Window | None, when: ast.EmitWhen | None) -> Window | None:
    """Without late results a window accepts no late rows: they would change it without ever being emitted."""
    if window is None or when is None or not isinstance(when.trigger, Panes) or when.trigger.late is not None:
        return window
    if window.grace:
        raise BadWindow(
            "EMIT ON TIME omits the late results of a window with a GRACE PERIOD",
            span=when.span,
            fix="add AND LATE, or remove GRACE PERIOD",
        )
    return replace(window, grace=timedelta(0))


# -- joins by event time --------------------------------------------------------------------------------------------


def temporal_join(flow: PartialPlan, source: ast.From) -> PartialPlan:
    """Plans the temporal joins of a FROM clause."""
    for ref, join in _source_refs(source, None):
        if ref.as_of is not None:
            flow = _as_of(flow, ref, ref.as_of, join)
    return flow


def _source_refs(source: ast.From, join: ast.Join | None) -> Iterator[tuple[ast.SourceRef, ast.Join | None]]:
    """Yields all sources, each with the join whose right side it is."""
    if isinstance(source, ast.Join):
        yield from _source_refs(source.left, None)
        yield from _source_refs(source.right, source)
    elif isinstance(source, ast.SourceRef):
        yield source, join


def _as_of(flow: PartialPlan, ref: ast.SourceRef, as_of: ast.AsOf, join: ast.Join | None) -> PartialPlan:
    alias = ref.alias or ref.name
    left_names = {other.alias or other.name for other, _ in _source_refs(join.left, None)} if join else set[str]()
    if as_of.time.name != e.ROWTIME or as_of.time.source not in {None, *left_names}:
        raise BadJoin(
            "FOR SYSTEM_TIME AS OF requires the time of the stream's row",
            span=as_of.time.span,
            fix=f"write {min(left_names, default='stream')}.{e.ROWTIME}",
        )

    def with_history(node: Node) -> Node:
        joined = isinstance(node, StreamTableJoin) and relation_of(node.right).value[0].name.startswith(f"{alias}.")
        return replace(node, history=as_of.history or DEFAULT_HISTORY) if joined else node

    node = rewrite_nodes(flow.node, with_history)
    if node == flow.node:
        raise BadJoin(
            "FOR SYSTEM_TIME AS OF is valid only for a table that is joined to a stream",
            span=as_of.span,
            fix="remove it, or put the stream on the left and the table on the right",
        )
    return flow.on(node)
