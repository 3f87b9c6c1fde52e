"""Which way a streaming query runs: natively where Spark's operators give the same final answer and lose no report of
a record that could not be used; else record by record. `choose_way` says which, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Topic
from headrace.engine.batch.compile import against
from headrace.engine.batch.expressions import never_fails
from headrace.engine.batch.grouping import spark_form
from headrace.engine.native.conditions import cut_plan
from headrace.engine.native.join_choice import against_join
from headrace.engine.native.work import aggregate_of, distinct_of, group_columns, is_final, is_ordered
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.expressions import Call, Expression, Named
from headrace.plan.rewriting import cannot_fail, relation_of
from headrace.plan.rules import optimized

NATIVE, RECORD = "native", "record"
_TIMES = (ty.BIGINT, ty.TIMESTAMP)


@dataclass(frozen=True)
class Choice:
    way: str
    reasons: tuple[str, ...] = ()
    """Why not natively."""

    def __str__(self) -> str:
        """For `headrace explain`."""
        if not self.reasons:
            return "runs natively: Spark's own operators, results once per batch"
        return f"runs record by record: {'; '.join(self.reasons)}"


def choose_way(
    query: n.Query, topics: Mapping[str, Topic], *, every_change: bool = False, kafka: bool = False
) -> Choice:
    """Natively if nothing speaks against it; `topics` are the log's, by name. `every_change` of a table is wanted."""
    plan = optimized(query)
    reasons = tuple(dict.fromkeys(_against(plan, topics, kafka)))
    if every_change and plan.sink.relation.kind is n.Kind.TABLE and not is_final(plan):
        reasons = ("every change is to be sent, and natively those of a batch are merged", *reasons)
    return Choice(RECORD if reasons else NATIVE, reasons)


def _against(plan: n.Query, topics: Mapping[str, Topic], kafka: bool) -> Iterator[str]:
    source, *others = plan.sources
    if others and (reasons := tuple(against_join(plan, topics, kafka))):
        yield from reasons
        return
    for one in plan.sources:
        yield from _source(one, topics.get(one.topic))
    sink, found = topics.get(plan.sink.topic), aggregate_of(plan.sink)
    if plan.sink.timestamp is not None and sink is not None and not sink.schema.is_raw:
        yield "a column becomes the time of rows of a topic with a schema"
    for node in n.walk(plan.sink):
        yield from _OWN.get(type(node), against)(node)
        yield from _failing(node)
        if isinstance(node, n.Filter) and node.relation.kind is n.Kind.TABLE and not is_final(plan):
            yield "whether a row that does not fit had fitted before is known record by record"
    if found is not None:
        yield from _aggregate(found, plan, topics.get(source.topic), kafka)
    if distinct_of(plan.sink) is not None:
        yield from _distinct(plan, topics.get(source.topic), kafka)


def _source(source: n.Source, topic: Topic | None) -> Iterator[str]:
    if source.relation.kind is n.Kind.TABLE:
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
        if spark_form(call, "x") is None:
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


def _windows(window: n.Window, plan: n.Query, topic: Topic | None, kafka: bool) -> Iterator[str]:
    """Stream time must follow from what the log says of its rows; on Kafka it is known before a batch."""
    above = cut_plan(plan)[1]
    windowed: Any = aggregate_of(above) or distinct_of(above)
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


def _join(node: n.StreamJoin) -> Iterator[str]:
    """All is said already; its columns are those of its sides."""
    yield from ()


_OWN: Mapping[type[n.Node], Callable[[Any], Iterator[str]]] = {n.Final: _final, n.StreamJoin: _join}
"""Kinds of node that run natively here, and not over a bounded read."""


def _failing(node: n.Node) -> Iterator[str]:
    """What fails gives null and is reported: Spark's operators cannot report."""
    over = relation_of(node.inputs[0]) if node.inputs else None
    if over is not None and not all(_is_safe(e, over) for e in _expressions(vars(node))):
        name = _NAMES.get(type(node), type(node).__name__)
        yield f"{name} computes what only Python can, or what may fail, which is reported"


def _is_safe(expression: Expression, over: n.Relation) -> bool:
    if isinstance(expression, Call) and expression.name.upper() == "EXPLODE":
        return all(_is_safe(argument, over) for argument in expression.arguments)
    return cannot_fail(expression, over) or never_fails(expression, over)


_NAMES: Mapping[type[n.Node], str] = {
    n.Select: "SELECT",
    n.Filter: "WHERE",
    n.Rekey: "PARTITION BY",
    n.Explode: "SELECT",
    n.Aggregate: "GROUP BY",
    n.Distinct: "DISTINCT",
}


def _expressions(value: Any) -> Iterator[Expression]:
    """The outermost expressions in a node's own fields."""
    parts: Mapping[type, Callable[[Any], Any]] = {
        Named: lambda named: named.expression,
        n.AggregateCall: lambda call: call.arguments,
        dict: lambda items: tuple(items.values()),
    }
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions(item)
    elif type(value) in parts:
        yield from _expressions(parts[type(value)](value))
