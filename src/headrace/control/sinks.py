"""What a topic is that is made for a query's results: raw, or with columns.

Raw is the default: its bytes are in the formats that the statement names, and whoever reads the topic relies on that.
With `sink = typed` it has the columns of the result instead, so that queries write and read it without encoding a row.
Those of windows have WINDOWSTART and WINDOWEND among them. Results with times or maps inside of other types stay raw,
as they could not be read back as columns. Notices of alerts are raw, and the oldest are removed.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.contracts import Topic, TopicSpec
from headrace.errors import BadSchema, BadSetting, SchemaMismatch
from headrace.plan import alerts
from headrace.plan.chain.records import BOUNDS, needed_bounds
from headrace.plan.layout import layouts_of
from headrace.plan.nodes import Query, Sink, Source
from headrace.schema import Schema
from headrace.settings import Settings, Size

RAW, TYPED = "raw", "typed"
KEPT = Size(256 << 20)
"""How much of the notices of alerts is history. Not how long: a notice has the time of its record, which may be old."""


def sink_spec(sink: Sink, settings: Settings) -> TopicSpec:
    """Of a topic for the results."""
    if settings.sink not in (RAW, TYPED):
        raise BadSetting(f'setting "sink" cannot be "{settings.sink}"', fix="choose raw or typed")
    if sink.topic == alerts.TOPIC:
        return TopicSpec(retention_bytes=KEPT)
    raw = TopicSpec(partitions=sink.partitions or 1)
    if settings.sink == RAW or settings.log != "embedded":
        return raw
    schema = _schema(sink)
    return raw if schema is None else replace(raw, schema=schema)


def _schema(sink: Sink) -> Schema | None:
    """The columns of the results, if they can be a topic's, and read back from it."""
    relation, bounds = sink.relation, BOUNDS if sink.relation.window else ()
    fields = (*relation.key, *bounds, *relation.value)
    if len({field.name.upper() for field in fields}) < len(fields):
        return None
    try:
        schema = Schema(fields, tuple(field.name for field in (*relation.key, *needed_bounds(relation))))
        stored = Schema.parse(str(schema))
        layouts_of(_reading(sink), [Topic(sink.topic, TopicSpec(schema=stored), 0)])
    except (BadSchema, SchemaMismatch):
        return None
    return None if stored.is_raw or stored != schema else schema


def _reading(sink: Sink) -> Query:
    """A query that reads what the sink holds."""
    source = Source(sink.name, sink.topic, sink.relation, sink.key_format, sink.value_format)
    return Query("", replace(sink, input=source))
