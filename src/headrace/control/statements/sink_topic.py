"""Chooses the spec of the topic that a query creates for its results: raw, or with columns.

Raw is the default: the bytes are in the formats that the statement names, and other readers of the topic rely on that.
With `query.sink_topics = typed` the topic has the columns of the result instead, so that queries write and read it
without encoding rows. Windowed results include WINDOWSTART and WINDOWEND. Results with times or maps inside other types
stay raw, since they could not be read back as columns. Notices of alerts are raw, and the oldest are removed.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.contracts import Topic, TopicSpec
from headrace.errors import BadSchema, BadSetting, SchemaMismatch
from headrace.plan import alerts
from headrace.plan.analysis.record_layout import record_layouts
from headrace.plan.chain.records import WINDOW_BOUND_FIELDS, needed_bounds
from headrace.plan.nodes import Query, Sink, Source
from headrace.schema import Schema
from headrace.settings import Settings, Size

RAW, TYPED = "raw", "typed"
ALERT_RETENTION_BYTES = Size(256 << 20)
"""Retention of alert notices. By size, not by time: a notice has the timestamp of its record, which may be old."""


def sink_topic_spec(sink: Sink, settings: Settings) -> TopicSpec:
    """The spec of the topic for a query's results."""
    if settings.query.sink_topics not in (RAW, TYPED):
        raise BadSetting(
            f'setting "query.sink_topics" cannot be "{settings.query.sink_topics}"', fix="choose raw or typed"
        )
    if sink.topic == alerts.TOPIC:
        return TopicSpec(retention_bytes=ALERT_RETENTION_BYTES)
    raw = TopicSpec(partitions=sink.partitions or 1)
    if settings.query.sink_topics == RAW or settings.storage.log != "embedded":
        return raw
    schema = _schema(sink)
    return raw if schema is None else replace(raw, schema=schema)


def _schema(sink: Sink) -> Schema | None:
    """The columns of the results, if a topic can store them and they can be read back; else None."""
    relation, bounds = sink.relation, WINDOW_BOUND_FIELDS if sink.relation.window else ()
    fields = (*relation.key, *bounds, *relation.value)
    if len({field.name.upper() for field in fields}) < len(fields):
        return None
    try:
        schema = Schema(fields, tuple(field.name for field in (*relation.key, *needed_bounds(relation))))
        stored = Schema.parse(str(schema))
        record_layouts(_reading(sink), [Topic(sink.topic, TopicSpec(schema=stored), 0)])
    except (BadSchema, SchemaMismatch):
        return None
    return None if stored.is_raw or stored != schema else schema


def _reading(sink: Sink) -> Query:
    """A query that reads the sink's topic."""
    source = Source(sink.name, sink.topic, sink.relation, sink.key_format, sink.value_format)
    return Query("", replace(sink, input=source))
