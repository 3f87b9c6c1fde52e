"""Decides whether a streaming query runs natively.

It does where Spark's operators give the same final result and lose no report of an unusable record; else it runs record
by record. `choose_native` says which, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Topic
from headrace.engine.execution_mode import NATIVE, RECORD
from headrace.engine.native.arrow_filter import push_down_filter
from headrace.engine.native.task_spec import group_columns, is_final, is_ordered, only_aggregate, only_distinct
from headrace.engine.planning.sparksql_support import sparksql_obstacles
from headrace.engine.sparksql.aggregation import aggregate_sql
from headrace.engine.sparksql.expressions import never_fails
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.expressions import Call, Expression
from headrace.plan.relations import Kind, Relation, Window
from headrace.plan.rewrite import cannot_fail, own_expressions, relation_of
from headrace.plan.rules import optimize

_TIMES = (ty.BIGINT, ty.TIMESTAMP)


@dataclass(frozen=True)
class NativeChoice:
    execution_mode: str
    reasons: tuple[str, ...] = ()
    """Why not natively."""

    def __str__(self) -> str:
        """For `headrace explain`."""
        if not self.reasons:
            return "runs natively: Spark's own operators, results once per batch"
        return f"runs record by record: {'; '.join(self.reasons)}"


def choose_native(
    query: n.Query, topics: Mapping[str, Topic], *, every_change: bool = False, kafka: bool = False
) -> NativeChoice:
    """Natively if there is no obstacle; `topics` are the log's, by name. `every_change` of a table is to be emitted."""
    plan = optimize(query)
    reasons = tuple(dict.fromkeys(_against(plan, topics, kafka)))
    if every_change and plan.sink.relation.kind is Kind.TABLE and not is_final(plan):
        reasons = ("every change is to be sent, and natively those of a batch are merged", *reasons)
    return NativeChoice(RECORD if reasons else NATIVE, reasons)


def _against(plan: n.Query, topics: Mapping[str, Topic], kafka: bool) -> Iterator[str]:
    source, *others = plan.sources
    if others:
        joins = (node for node in n.walk(plan.sink) if len(node.inputs) > 1)
        yield from (node.traits.not_in_sparksql or "several sources meet" for node in joins)
        return
    yield from _source(source, topics.get(source.topic))
    sink, aggregate = topics.get(plan.sink.topic), only_aggregate(plan.sink)
    if plan.sink.timestamp is not None and sink is not None and not sink.schema.is_raw:
        yield "a column becomes the time of rows of a topic with a schema"
    for node in n.walk(plan.sink):
        yield from _OWN.get(type(node), sparksql_obstacles)(node)
        yield from _failing(node)
        if isinstance(node, n.Filter) and node.relation.kind is Kind.TABLE and not is_final(plan):
            yield "whether a row that does not fit had fitted before is known record by record"
    if aggregate is not None:
        yield from _aggregate(aggregate, plan, topics.get(source.topic), kafka)
    if only_distinct(plan.sink) is not None:
        yield from _distinct(plan, topics.get(source.topic), kafka)


def _source(source: n.Source, topic: Topic | None) -> Iterator[str]:
    if source.relation.kind is Kind.TABLE:
        yield "what a table held before is known record by record"
    if source.relation.window is not None:
        yield f"{source.name} has windows in its key"
    if topic is None or topic.schema.is_raw:
        return
    if source.system:
        yield f"{source.name} reads the envelope of its records, and its topic has columns"
    stamp = source.timestamp and source.relation.column(source.timestamp.column)
    if stamp and stamp.type not in _TIMES:
        yield f"the time of {source.name} is text"


def _aggregate(node: Any, plan: n.Query, topic: Topic | None, kafka: bool) -> Iterator[str]:
    if not all(isinstance(step, n.Filter | n.Source) for step in n.walk(node.input)):
        yield "rows change on their way to GROUP BY, and a null among the groups would go unreported"
    if None in group_columns(node):
        yield "GROUP BY computes its groups, and a null among them would go unreported"
    for call in node.calls:
        if aggregate_sql(call, "x") is None:
            yield f"{call.function} has no form in Spark that means the same"
        if kafka and is_ordered(call):
            yield f"{call.function} asks for the order of arrival, which on Kafka no single column tells"
    if node.relation.window is not None:
        yield from _windows(node.relation.window, plan, topic, kafka)


def _distinct(plan: n.Query, topic: Topic | None, kafka: bool) -> Iterator[str]:
    if kafka:
        yield "DISTINCT asks for the order of arrival, which on Kafka no single column tells"
    (node, *others) = (step for step in n.walk(plan.sink) if isinstance(step, n.Distinct | n.Aggregate))
    if others or not isinstance(node, n.Distinct):
        yield "what is compared is grouped, or compared again"
        return
    if any(isinstance(step, n.Explode) for step in n.walk(node)):
        yield "rows of one record are compared, and have one place in the order of arrival"
    if node.window is not None:
        yield from _windows(node.window, plan, topic, kafka)


def _windows(window: Window, plan: n.Query, topic: Topic | None, kafka: bool) -> Iterator[str]:
    """Stream time must follow from what the log knows of its rows; on Kafka it is known before a batch."""
    above = push_down_filter(plan)[1]
    windowed: Any = only_aggregate(above) or only_distinct(above)
    if not kafka and (topic is None or topic.schema.is_raw):
        yield "which records have a time that counts is known once they are decoded"
    if plan.sources[0].timestamp is not None:
        yield "the time of the stream is in a column"
    if any(isinstance(step, n.Filter) for step in n.walk(windowed.input)):
        yield "only rows that pass a filter move the time of the stream, and this one is not for Arrow"
    if window.idle is not None:
        yield "windows close when the stream is idle"
    if window.size and window.advance and window.advance > window.size:
        yield "rows between two windows count in none"


def _final(node: n.Final) -> Iterator[str]:
    if node.relation.window is not None and node.relation.window.retention is not None:
        yield "whether a window's retention is over when it goes out is known record by record"


_OWN: Mapping[type[n.Node], Callable[[Any], Iterator[str]]] = {n.Final: _final}
"""Node types that run natively here, but not over a bounded read."""


def _failing(node: n.Node) -> Iterator[str]:
    """A failing expression gives null and is reported: Spark's operators cannot report."""
    over = relation_of(node.inputs[0]) if node.inputs else None
    if over is not None and not all(_is_safe(e, over) for e in own_expressions(node)):
        name = node.traits.clause or type(node).__name__
        yield f"{name} computes what only Python can, or what may fail, which is reported"


def _is_safe(expression: Expression, over: Relation) -> bool:
    if isinstance(expression, Call) and expression.name.upper() == "EXPLODE":
        return all(_is_safe(argument, over) for argument in expression.arguments)
    return cannot_fail(expression, over) or never_fails(expression, over)
