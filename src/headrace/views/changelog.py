"""Decodes the records of a table's topic into changes: raw topics in any format, and topics with columns."""

from __future__ import annotations

from headrace.contracts import Batch, Topic
from headrace.plan.analysis.batch_decoder import BatchDecoder
from headrace.plan.nodes import Source
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event, Problem
from headrace.plan.types import BIGINT_MAX


class ChangelogDecoder:
    """Decodes batches of one table."""

    def __init__(self, info: SourceInfo, topic: Topic) -> None:
        formats = (info.key_format, info.value_format)
        self.source = Source(info.name, info.topic, info.relation, *formats, info.timestamp, info.system)
        self._decoder = BatchDecoder(self.source, topic)

    def of(self, batch: Batch) -> tuple[list[Event], int]:
        """Returns the changes in order, and the number of records skipped because they are undecodable or have no key.

        The bytes of a window's start may be anything, so its end may exceed BIGINT.
        """
        decoded = self._decoder.decode(batch)
        events = [event for event in decoded if not isinstance(event, Problem) and event[1] is not None]
        if self.source.relation.window is not None:
            events = [event for event in events if event[1][-1][1] <= BIGINT_MAX]  # type: ignore[index] - it has a key
        return events, len(batch) - len(events)
