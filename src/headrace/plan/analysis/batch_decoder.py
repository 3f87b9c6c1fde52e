"""Decodes batches of a source's topic into events: raw topics in any format, and topics with a schema."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.contracts import Batch, Topic
from headrace.plan.analysis.columnar import columnar_decoder
from headrace.plan.analysis.record_layout import RecordLayout, record_layouts
from headrace.plan.chain.records import Decoder
from headrace.plan.nodes import Query, Sink, Source
from headrace.plan.steps import Event, Problem


class BatchDecoder:
    """Decodes batches of one source. Many records at once are decoded as columns where their format supports it."""

    def __init__(self, source: Source, topic: Topic) -> None:
        self._source = source
        sink = Sink(source, source.relation, source.name, source.topic, source.key_format, source.value_format)
        self._layout, *columnar = record_layouts(Query(source.name, sink), [topic])
        self._columnar_layout: RecordLayout | None = columnar[0] if columnar else None
        self._columnar_decoder = columnar_decoder(source) if columnar else None
        self._decoder = Decoder(source, self._layout.names)

    def decode(self, batch: Batch) -> Sequence[Event | Problem]:
        """Returns an event for each record of the batch, or the reason why there is none."""
        decoded = self._by_column(batch)
        if decoded is not None:
            return decoded
        rows = pa.Table.from_batches([self._layout.pack(batch)])
        events = self._layout.events(rows, self._source)
        return list(map(self._decoder.decode, self._layout.records(rows))) if events is None else events

    def _by_column(self, batch: Batch) -> Sequence[Event] | None:
        """Decodes the batch as columns; None unless all its records allow it."""
        decoder, layout = self._columnar_decoder, self._columnar_layout
        if decoder is None or layout is None or len(batch) < layout.fewest:
            return None
        columns = decoder.decode(*(batch.rows.column(name) for name in ("key", "value", "$timestamp")))
        decoded = columns.decoded
        if decoder.key_width > 1:
            decoded = decoded & columns.keyed.to_numpy(zero_copy_only=False)  # null columns would be taken for a key
        if not decoded.all():
            return None
        return layout.events(pa.Table.from_batches([layout.pack_columnar(batch, columns)]), self._source)
