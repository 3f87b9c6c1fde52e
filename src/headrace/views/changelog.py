"""Decodes the records of a table's topic into changes: raw topics in any format, and topics with columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.contracts import Batch, Topic
from headrace.plan.analysis.columnar import columnar_decoder
from headrace.plan.analysis.record_layout import RecordLayout, record_layouts
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Event, Problem
from headrace.plan.chain.records import Decoder
from headrace.plan.nodes import Query, Sink, Source
from headrace.plan.types import BIGINT_MAX


class ChangelogDecoder:
    """Decodes batches of one table. Many records at once are decoded as columns where their format supports it."""

    def __init__(self, info: SourceInfo, topic: Topic) -> None:
        self.source = _source(info)
        sink = Sink(self.source, info.relation, info.name, info.topic, info.key_format, info.value_format)
        self._layout, *opened = record_layouts(Query(info.name, sink), [topic])
        self._opened: RecordLayout | None = opened[0] if opened else None
        self._opener = columnar_decoder(self.source) if opened else None
        self._decoder = Decoder(self.source, self._layout.names)

    def of(self, batch: Batch) -> tuple[list[Event], int]:
        """Returns the changes in order, and the number of records skipped because they are undecodable or have no key.

        The bytes of a window's start may be anything, so its end may exceed BIGINT.
        """
        found = self._at_once(batch)
        decoded = self._one_by_one(batch) if found is None else found
        events = [event for event in decoded if event[1] is not None]
        if self.source.relation.window is not None:
            events = [event for event in events if event[1][-1][1] <= BIGINT_MAX]  # type: ignore[index] - it has a key
        return events, len(batch) - len(events)

    def _at_once(self, batch: Batch) -> Sequence[Event] | None:
        """Decodes the batch as columns. None unless all records allow it: those of one key must stay in order."""
        if self._opener is None or self._opened is None or len(batch) < self._opened.fewest:
            return None
        opened = self._opener.opened(*(batch.rows.column(name) for name in ("key", "value", "$timestamp")))
        sure = opened.sure
        if self._opener.key_width > 1:
            sure = sure & opened.keyed.to_numpy(zero_copy_only=False)  # null columns would be taken for a key
        if not sure.all():
            return None
        return self._opened.events(pa.Table.from_batches([self._opened.packed_opened(batch, opened)]), self.source)

    def _one_by_one(self, batch: Batch) -> list[Event]:
        rows = pa.Table.from_batches([self._layout.packed(batch)])
        decoded = map(self._decoder.decode, self._layout.records(rows))
        return [event for event in decoded if not isinstance(event, Problem)]


def _source(info: SourceInfo) -> Source:
    formats = (info.key_format, info.value_format)
    return Source(info.name, info.topic, info.relation, *formats, info.timestamp, info.system)
