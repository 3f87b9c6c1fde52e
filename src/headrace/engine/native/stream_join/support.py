"""Decides which stream-stream joins run natively: inner joins of two topics, by plain columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from headrace.contracts import Topic
from headrace.engine.native.stream_join.task_spec import key_column, only_stream_join
from headrace.engine.planning.partitioning import HASHABLE_TYPES
from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.analysis.columnar import columnar_decoder
from headrace.plan.analysis.rewrite import relation_of
from headrace.plan.chain.joins.stream_join import join_reach

_LONG = 3_600_000
"""The longest time, in ms, that rows may be held: a batch's cost grows with them, not with its own rows."""
_ABOVE = (n.Sink, n.Select, n.Filter, n.Rekey, n.Explode)
_BELOW = (n.Select, n.Rekey, n.Source)


def join_obstacles(plan: n.Query, topics: Mapping[str, Topic], kafka: bool) -> Iterator[str]:
    """The obstacles for a plan that reads several sources."""
    join = only_stream_join(plan)
    if join is None or len(plan.sources) > 2:
        yield "several sources meet"
        return
    yield from _shape(plan, join)
    yield from _keys(join)
    if (held := sum(join_reach(join))) > _LONG:
        yield f"rows are held for {timedelta(milliseconds=held)}, and Spark looks through all of them in every batch"
    if kafka:
        yield from _on_kafka(plan, join)
    if join.kind is not n.JoinKind.INNER:
        yield "when a row goes out without a partner is known record by record"
    if len({source.topic for source in plan.sources}) == 1:
        yield "both streams that are joined read one topic"
    for source in plan.sources:
        topic = topics.get(source.topic)
        if not kafka and (topic is None or topic.schema.is_raw) and columnar_decoder(source) is None:
            yield f"the records of {source.name} are decoded one by one"


def _on_kafka(plan: n.Query, join: Any) -> Iterator[str]:
    """Rows of a batch are ordered by Kafka's timestamps, and none is dropped within it."""
    before, after, grace = join_reach(join)
    if before + after + grace <= max(before, after):
        yield "whether a row was let go in the very moment its partner came is known record by record"
    if any(source.timestamp is not None for source in plan.sources):
        yield "the time of the stream is in a column"


def _shape(plan: n.Query, join: Any) -> Iterator[str]:
    below = [node for top in (join.left, join.right) for node in n.walk(top)]
    above = [node for node in n.walk(plan.sink) if node is not join and not any(node is one for one in below)]
    if any(isinstance(node, n.Aggregate) for node in above):
        yield "what is joined is grouped, and Spark sends pairs only as they come, but groups when they change"
    elif not all(isinstance(node, _ABOVE) for node in above):
        yield "what is joined goes on record by record"
    if not all(isinstance(node, _BELOW) for node in below):
        yield "only rows that pass a filter move the time of the stream"


def _keys(join: n.StreamJoin) -> Iterator[str]:
    sides = (join.left, join.right)
    left, right = ([field.type for field in relation_of(side).key] for side in sides)
    if left != right or len(left) != 1:
        yield "the keys of both sides are not one column of one type"
        return
    if None in [key_column(side) for side in sides]:
        yield "JOIN ... ON computes its key, and a null would go unreported"
    if left[0] not in HASHABLE_TYPES and not ty.is_decimal(left[0]):
        yield f"Spark has other equals among keys of type {left[0]}"
