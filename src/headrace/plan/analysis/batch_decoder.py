"""Decodes batches of a source's topic into events: raw topics in any format, and topics with a schema."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.contracts import Batch, Topic
from headrace.plan.analysis.columnar import columnar_decoder
from headrace.plan.analysis.record_layout import RecordLayout, record_layouts
from headrace.plan.chain.contract import Event, Problem
from headrace.plan.chain.records import Decoder
from headrace.plan.nodes import Query, Sink, Source


class BatchDecoder:
    """Decodes batches of one source. Many records at once are decoded as columns where their format supports it."""

    def __init__(self, source: Source, topic: Topic) -> None:
        self._source = source
        sink = Sink(source, source.relation, source.name, source.topic, source.key_format, source.value_format)
        self._layout, *opened = record_layouts(Query(source.name, sink), [topic])
        self._opened: RecordLayout | None = opened[0] if opened else None
        self._opener = columnar_decoder(source) if opened else None
        self._decoder = Decoder(source, self._layout.names)

    def decode(self, batch: Batch) -> Sequence[Event | Problem]:
        """Returns an event for each record of the batch, or the reason why there is none."""
        opened = self._by_column(batch)
        if opened is not None:
            return opened
        rows = pa.Table.from_batches([self._layout.packed(batch)])
        events = self._layout.events(rows, self._source)
        return list(map(self._decoder.decode, self._layout.records(rows))) if events is None else events

    def _by_column(self, batch: Batch) -> Sequence[Event] | None:
        """Decodes the batch as columns; None unless all its records allow it."""
        if self._opener is None or self._opened is None or len(batch) < self._opened.fewest:
            return None
        opened = self._opener.opened(*(batch.rows.column(name) for name in ("key", "value", "$timestamp")))
        sure = opened.sure
        if self._opener.key_width > 1:
            sure = sure & opened.keyed.to_numpy(zero_copy_only=False)  # null columns would be taken for a key
        if not sure.all():
            return None
        return self._opened.events(pa.Table.from_batches([self._opened.packed_opened(batch, opened)]), self._source)
