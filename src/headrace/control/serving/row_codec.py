"""Encodes and decodes the rows of INSERT, DELETE, PRINT and ASSERT, for raw topics and topics with columns.

A topic with columns does not store bytes. Its rows are converted to records in the formats of the source that is
declared over it, as a raw topic would store them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import starmap

import pyarrow as pa

from headrace.contracts import Batch, Topic
from headrace.engine.record.result_writer import ResultWriter, read_written
from headrace.engine.record.results import Results
from headrace.engine.record.sink_columns import sink_columns
from headrace.errors import BadRecord, Unsupported
from headrace.log.stored_rows import from_records
from headrace.plan.analysis.record_layout import record_layouts
from headrace.plan.chain.records import Decoder, Encoder, RawRecord
from headrace.plan.chain.row_codec import row_encoder, sink_node, source_node
from headrace.plan.nodes import Query
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event, Problem
from headrace.record import Record, StoredRecord


def encode_rows(topic: Topic, source: SourceInfo, events: Sequence[Event]) -> pa.RecordBatch:
    """Encode events of a source for its topic."""
    if topic.schema.is_raw:
        records = starmap(row_encoder(source), events)
        return from_records([Record(record.value, record.key, occurred_at=record.time) for record in records])
    sink = sink_node(source)
    ((_, payload),) = ResultWriter(sink, sink_columns(sink, topic)).write(Results(list(events)), _refuse(source))
    return read_written(payload, topic)


def _refuse(source: SourceInfo) -> Callable[[Problem], None]:
    def refuse(problem: Problem) -> None:
        raise BadRecord(f"the row cannot be written to {source.name}: {problem.reason}", fix="change the values")

    return refuse


def records_of_batch(batch: Batch, topic: Topic, source: SourceInfo | None) -> Iterator[RawRecord]:
    """The rows of a topic as records; rows with columns are encoded in the formats of the source."""
    if topic.schema.is_raw:
        return map(_raw, batch.records())
    if source is None:
        raise Unsupported(
            f'topic "{topic.name}" has a schema, but no stream or table is declared over it',
            fix=f"read its rows with `headrace consume {topic.name}`",
        )
    return _encoded(batch, topic, source)


def _raw(record: StoredRecord) -> RawRecord:
    return RawRecord(record.key, record.value, record.timestamp, record.headers, record.partition, record.offset)


def _encoded(batch: Batch, topic: Topic, source: SourceInfo) -> Iterator[RawRecord]:
    sink = sink_node(source)
    (layout,) = record_layouts(Query(source.name, sink), [topic])
    decoder, encoder = Decoder(source_node(source), layout.names), Encoder(sink)
    for record in layout.records(pa.Table.from_batches([layout.pack(batch)])):
        event = decoder.decode(record)
        encoded = event if isinstance(event, Problem) else encoder.encode(event, record.headers)
        if isinstance(encoded, Problem):
            raise BadRecord(f"a record of {source.name} cannot be decoded: {encoded.reason}", fix="check its producer")
        yield encoded._replace(partition=record.partition, offset=record.offset)
