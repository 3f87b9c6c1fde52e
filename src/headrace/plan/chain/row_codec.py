"""Encodes and decodes single records of a source, for INSERT VALUES, DELETE and ASSERT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import BadRecord
from headrace.plan.chain.records import Decoder, Encoder, RawRecord
from headrace.plan.nodes import Sink, Source
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event, Problem


def encode_row(source: SourceInfo, time: int, key: Any, row: Any) -> RawRecord:
    """Encodes a row in the source's formats. A source's timestamp column is read, never set."""
    return row_encoder(source)(time, key, row)


def row_encoder(source: SourceInfo) -> Callable[[int, Any, Any], RawRecord]:
    """The same for many rows: resolving the formats takes longer than encoding a row."""
    encode = Encoder(sink_node(source)).encode

    def encoded(time: int, key: Any, row: Any) -> RawRecord:
        record = encode((time, key, row))
        if isinstance(record, Problem):
            raise BadRecord(f"the row cannot be written to {source.name}: {record.reason}", fix="change the values")
        return record

    return encoded


def decode_row(source: SourceInfo, record: RawRecord) -> Event:
    """Decodes a record to `(time, key, row)`, with the record's own time."""
    event = Decoder(source_node(source)).decode(record)
    if isinstance(event, Problem):
        raise BadRecord(f"a record of {source.name} cannot be read: {event.reason}", fix="check its producer")
    return event


def source_node(source: SourceInfo) -> Source:
    """Returns a Source node for it, without columns from the envelope."""
    return Source(source.name, source.topic, source.relation, source.key_format, source.value_format)


def sink_node(source: SourceInfo) -> Sink:
    """Returns a Sink node for it."""
    read = source_node(source)
    return Sink(read, source.relation, source.name, source.topic, source.key_format, source.value_format)
