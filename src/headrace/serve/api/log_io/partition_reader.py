"""Reads the partitions of a topic in pages, bounded by a number of records and an approximate number of bytes."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.contracts import Batch, Log, TopicPartition
from headrace.errors import OffsetLost, OffsetOutOfRange
from headrace.log.embedded import EmbeddedLog

_FIRST = 16  # records to read while the record size is unknown


class PartitionReader:
    """A reader: its positions, and the next page. Not thread-safe."""

    def __init__(
        self, log: Log, positions: dict[TopicPartition, int], *, grows: bool = True, most_bytes: int = 8 << 20
    ) -> None:
        self.positions = positions
        self._log = log
        self._grows = grows  # also read partitions that are added to the topic
        self._most_bytes = most_bytes
        self._size = most_bytes / _FIRST  # estimated bytes of a record

    def page(self, limit: int) -> list[Batch]:
        """At most `limit` records, from all partitions in turn; empty if all are at their ends."""
        batches: list[Batch] = []
        remaining, budget = limit, float(self._most_bytes)
        for place in self._due():
            while remaining > 0 and budget > 0 and (batch := self._read(place, remaining, budget)) is not None:
                self.positions[place] = batch.next_offset
                remaining, budget = remaining - len(batch), budget - batch.rows.nbytes
                if len(batch):
                    batches.append(batch)
        if batches:
            _make_durable(self._log, {batch.topic for batch in batches})
        return batches

    def behind(self) -> int:
        """The lag in records. It may be a little too high, since offsets have gaps."""
        return sum(end - self.positions[place] for place, end in self._ends().items())

    def _due(self) -> list[TopicPartition]:
        """Partitions that have a lag, the largest lag first, so that none is starved."""
        lag = {place: end - self.positions[place] for place, end in self._ends().items()}
        for place in lag:
            if lag[place] < 0:
                what = f"position {self.positions[place]} lies after the end"
                raise OffsetOutOfRange(
                    what, where=str(place), fix="if the topic was deleted and created again, start from its beginning"
                )
        return sorted((place for place in lag if lag[place] > 0), key=lambda place: -lag[place])

    def _ends(self) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in {place.topic for place in self.positions}:
            for partition, bounds in self._log.bounds(topic).items():
                place = TopicPartition(topic, partition)
                if self._grows:
                    self.positions.setdefault(place, bounds.start)
                if place in self.positions:
                    ends[place] = bounds.end
        return ends

    def _read(self, place: TopicPartition, left: int, budget: float) -> Batch | None:
        at = self.positions[place]
        try:
            batch = self._log.read(*place, at, max_records=max(1, min(left, int(budget / self._size))))
        except OffsetOutOfRange as error:
            start, _ = self._log.bounds(place.topic)[place.partition]
            what = f"records {at} to {start - 1} were removed before they were read"
            raise OffsetLost(what, where=str(place), fix=f"continue reading from {place}:{start}") from error
        if len(batch):
            self._size = max(1.0, batch.rows.nbytes / len(batch))
        return None if batch.next_offset == at else batch


def _make_durable(log: Log, topics: Iterable[str]) -> None:
    """Sync the topics: rows of the embedded log are visible before they are durable, but positions given out must be
    durable.
    """
    if isinstance(log, EmbeddedLog):
        log.head(topics)
