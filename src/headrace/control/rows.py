"""Rows that statements write and look at (INSERT, DELETE, PRINT, ASSERT), whatever the topic is: raw, or with columns.

A topic with columns holds no bytes. Its rows are shown as records in the formats of the source that is declared over
it, as they would lie in a raw topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import starmap

import pyarrow as pa

from headrace.contracts import Batch, Topic
from headrace.engine.record.results import Results
from headrace.engine.record.target import target_of
from headrace.engine.record.writing import Writer, unpacked
from headrace.errors import BadRecord, Unsupported
from headrace.log.rows import from_records
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Event, Problem
from headrace.plan.chain.hand import encoding, sink_of, source_of
from headrace.plan.chain.records import Decoder, Encoder, Raw
from headrace.plan.layout import layouts_of
from headrace.plan.nodes import Query
from headrace.record import Record, StoredRecord


def rows_for(topic: Topic, source: SourceInfo, events: Sequence[Event]) -> pa.RecordBatch:
    """Events of a source as the topic takes them."""
    if topic.schema.is_raw:
        records = starmap(encoding(source), events)
        return from_records([Record(record.value, record.key, occurred_at=record.time) for record in records])
    sink = sink_of(source)
    ((_, payload),) = Writer(sink, target_of(sink, topic)).write(Results(list(events)), _refuse(source))
    return unpacked(payload, topic)


def _refuse(source: SourceInfo) -> Callable[[Problem], None]:
    def refuse(problem: Problem) -> None:
        raise BadRecord(f"the row cannot be written to {source.name}: {problem.reason}", fix="change the values")

    return refuse


def records_of(batch: Batch, topic: Topic, source: SourceInfo | None) -> Iterator[Raw]:
    """The rows of a topic as records; those with columns in the formats of the source that is declared over it."""
    if topic.schema.is_raw:
        return map(_raw, batch.records())
    if source is None:
        raise Unsupported(
            f'topic "{topic.name}" has columns, and no stream or table is declared over it',
            fix=f"look at its rows with `headrace consume {topic.name}`",
        )
    return _encoded(batch, topic, source)


def _raw(record: StoredRecord) -> Raw:
    return Raw(record.key, record.value, record.timestamp, record.headers, record.partition, record.offset)


def _encoded(batch: Batch, topic: Topic, source: SourceInfo) -> Iterator[Raw]:
    sink = sink_of(source)
    (layout,) = layouts_of(Query(source.name, sink), [topic])
    decoder, encoder = Decoder(source_of(source), layout.names), Encoder(sink)
    for record in layout.records(pa.Table.from_batches([layout.packed(batch)])):
        event = decoder.decode(record)
        shown = event if isinstance(event, Problem) else encoder.encode(event, record.headers)
        if isinstance(shown, Problem):
            raise BadRecord(f"a record of {source.name} cannot be shown: {shown.reason}", fix="see who wrote it")
        yield shown._replace(partition=record.partition, offset=record.offset)
