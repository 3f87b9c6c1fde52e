"""Decides whether a query can run with Spark's real-time trigger, and if not, why.

It can if it processes each record alone, from Kafka to Kafka, in formats that Spark handles without Python, and if no
part of it could fail unreported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.contracts import Topic
from headrace.engine.planning.sparksql_support import sparksql_obstacles
from headrace.engine.realtime import formats
from headrace.engine.sparksql.expressions import never_fails
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.relations import Kind, payload
from headrace.plan.rewrite import own_expressions, relation_of
from headrace.plan.rules import optimize

DELIVERY_GUARANTEE = (
    "at least once: after a crash a result may come again, with the same headers hr-query and hr-origin"
)
"""Shown by `headrace explain`."""

_TIMES = (ty.BIGINT, ty.TIMESTAMP)


def realtime_obstacles(query: n.Query, topics: Mapping[str, Topic], *, kafka: bool) -> tuple[str, ...]:
    """The obstacles to the realtime mode; `topics` are the log's, by name."""
    log = () if kafka else ("its log is embedded",)
    strict = tuple(f"{setting} says that a record that cannot be used is to end it" for _, setting in query.strict)
    return tuple(dict.fromkeys([*log, *strict, *_against(optimize(query), topics)]))


def _against(plan: n.Query, topics: Mapping[str, Topic]) -> Iterator[str]:
    for node in n.walk(plan.sink):
        if not node.traits.realtime:
            yield f"{type(node).__name__.lower()} needs more than one record at a time"
            continue
        yield from sparksql_obstacles(node)
        yield from _computing(node)
    if len(plan.sources) == 1:
        yield from _source(plan.sources[0])
        yield from _sink(plan.sink)
        schemas = [name for name in (plan.sources[0].topic, plan.sink.topic) if not topics[name].schema.is_raw]
        yield from (f'topic "{name}" has a schema' for name in schemas)


def _computing(node: n.Node) -> Iterator[str]:
    over = relation_of(node.inputs[0]) if node.inputs else None
    if over is not None and not all(never_fails(expression, over) for expression in own_expressions(node)):
        yield f"{node.traits.clause} computes what only Python can, or what may fail, which is reported"
    if isinstance(node, n.Rekey) and not node.explicit:
        yield "rows without a key are dropped"


def _source(source: n.Source) -> Iterator[str]:
    if source.relation.kind is Kind.TABLE:
        yield "what a table held before is known record by record"
    if source.relation.window is not None:
        yield f"{source.name} has windows in its key"
    if source.system:
        yield f"{source.name} reads the envelope of its records"
    stamp = source.timestamp and source.relation.column(source.timestamp.column)
    if stamp and stamp.type not in _TIMES:
        yield f"the time of {source.name} is text"
    yield from formats.format_obstacles(source.key_format, source.relation.key, written=False)
    yield from formats.format_obstacles(source.value_format, payload(source.relation, source.system), written=False)


def _sink(sink: n.Sink) -> Iterator[str]:
    if sink.timestamp is not None:
        yield "a column becomes the time of its results"
    yield from formats.format_obstacles(sink.key_format, sink.relation.key, written=True)
    yield from formats.format_obstacles(sink.value_format, sink.relation.value, written=True)
