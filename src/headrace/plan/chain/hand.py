"""Single records of a source, written and read by hand: what INSERT VALUES, DELETE and ASSERT do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import BadRecord
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Event, Problem
from headrace.plan.chain.records import Decoder, Encoder, Raw
from headrace.plan.nodes import Sink, Source


def encoded(source: SourceInfo, time: int, key: Any, row: Any) -> Raw:
    """A row as the source's formats have it. A source's time column is read, never set."""
    return encoding(source)(time, key, row)


def encoding(source: SourceInfo) -> Callable[[int, Any, Any], Raw]:
    """The same for many rows: to look at the formats takes longer than to write one."""
    encode = Encoder(sink_of(source)).encode

    def encoded(time: int, key: Any, row: Any) -> Raw:
        record = encode((time, key, row))
        if isinstance(record, Problem):
            raise BadRecord(f"the row cannot be written to {source.name}: {record.reason}", fix="change the values")
        return record

    return encoded


def decoded(source: SourceInfo, record: Raw) -> Event:
    """A record as `(time, key, row)`, its time that of the record."""
    event = Decoder(source_of(source)).decode(record)
    if isinstance(event, Problem):
        raise BadRecord(f"a record of {source.name} cannot be read: {event.reason}", fix="see who wrote it")
    return event


def source_of(source: SourceInfo) -> Source:
    """Who reads records of it, without what comes from their envelope."""
    return Source(source.name, source.topic, source.relation, source.key_format, source.value_format)


def sink_of(source: SourceInfo) -> Sink:
    """Who writes records of it."""
    read = source_of(source)
    return Sink(read, source.relation, source.name, source.topic, source.key_format, source.value_format)
