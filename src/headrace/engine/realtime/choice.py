"""Whether a query can run by Spark's real-time trigger, and why not: what works on each record alone, from Kafka to
Kafka, in forms that Spark has without Python, and so that nothing of it could fail unreported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from headrace.contracts import Topic
from headrace.engine.batch.compile import against
from headrace.engine.batch.expressions import never_fails
from headrace.engine.realtime import payloads
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.expressions import Expression
from headrace.plan.rewriting import relation_of
from headrace.plan.rules import optimized

REALTIME = "realtime"
PROMISE = "at least once: after a crash a result may come again, with the same headers hr-query and hr-origin"
"""What `headrace explain` says."""

_EXPRESSIONS: Mapping[type[n.Node], Callable[[Any], Sequence[Expression]]] = {
    n.Source: lambda node: (),
    n.Sink: lambda node: (),
    n.Filter: lambda node: (node.condition,),
    n.Select: lambda node: [named.expression for named in node.values],
    n.Rekey: lambda node: [named.expression for named in node.keys],
}
"""The kinds of node that work on each record alone, and what they compute."""
_NAMES: Mapping[type[n.Node], str] = {n.Filter: "WHERE", n.Select: "SELECT", n.Rekey: "PARTITION BY"}
_TIMES = (ty.BIGINT, ty.TIMESTAMP)


def against_realtime(query: n.Query, topics: Mapping[str, Topic], *, kafka: bool) -> tuple[str, ...]:
    """What speaks against the realtime way; `topics` are the log's, by name."""
    log = () if kafka else ("its log is embedded",)
    strict = tuple(f"{setting} says that a record that cannot be used is to end it" for _, setting in query.strict)
    return tuple(dict.fromkeys([*log, *strict, *_against(optimized(query), topics)]))


def _against(plan: n.Query, topics: Mapping[str, Topic]) -> Iterator[str]:
    for node in n.walk(plan.sink):
        if type(node) not in _EXPRESSIONS:
            yield f"{type(node).__name__.lower()} needs more than one record at a time"
            continue
        yield from against(node)
        yield from _computing(node)
    if len(plan.sources) == 1:
        yield from _source(plan.sources[0])
        yield from _sink(plan.sink)
        schemas = [name for name in (plan.sources[0].topic, plan.sink.topic) if not topics[name].schema.is_raw]
        yield from (f'topic "{name}" has a schema' for name in schemas)


def _computing(node: n.Node) -> Iterator[str]:
    expressions = _EXPRESSIONS[type(node)](node)
    if not all(never_fails(expression, relation_of(node.inputs[0])) for expression in expressions):
        yield f"{_NAMES[type(node)]} computes what only Python can, or what may fail, which is reported"
    if isinstance(node, n.Rekey) and not node.explicit:
        yield "rows without a key are dropped"


def _source(source: n.Source) -> Iterator[str]:
    if source.relation.kind is n.Kind.TABLE:
        yield "what a table held before is known record by record"
    if source.relation.window is not None:
        yield f"{source.name} has windows in its key"
    if source.system:
        yield f"{source.name} reads the envelope of its records"
    stamp = source.timestamp and source.relation.column(source.timestamp.column)
    if stamp and stamp.type not in _TIMES:
        yield f"the time of {source.name} is text"
    yield from payloads.against(source.key_format, source.relation.key, written=False)
    yield from payloads.against(source.value_format, n.payload(source.relation, source.system), written=False)


def _sink(sink: n.Sink) -> Iterator[str]:
    if sink.timestamp is not None:
        yield "a column becomes the time of its results"
    yield from payloads.against(sink.key_format, sink.relation.key, written=True)
    yield from payloads.against(sink.value_format, sink.relation.value, written=True)
