"""Where batches of a query begin and end, and how the part between two positions is divided.

A position is a source's offset, as in Spark's checkpoint (see `log_adapter`). The embedded log has one position in the
total order; on Kafka there is one for every partition, and parts are divided partition by partition.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from headrace.contracts import Batch, Log
from headrace.engine.checkpoint import Checkpoint
from headrace.log.embedded import EmbeddedLog


@dataclass(frozen=True)
class RecordPlace:
    """Where a record is; `sequence` is None on Kafka."""

    topic: str
    partition: int
    offset: int
    sequence: int | None = None

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"


class BatchCuts(Protocol):
    """The records of some topics between a position (None is the beginning) and another."""

    def exceeds(self, after: Any, end: Any, rows: int) -> bool:
        """Whether there are more than so many records, approximately."""
        ...

    def count(self, after: Any, end: Any) -> int:
        """The number of records; on Kafka of offsets, some of which may have no record."""
        ...

    def half(self, after: Any, end: Any) -> Any:
        """A position with half of the records before it. There must be two or more."""
        ...

    def earlier(self, end: Any, other: Any) -> Any:
        """The earlier of two positions; on Kafka in each partition."""
        ...

    def only(self, after: Any, end: Any) -> RecordPlace | None:
        """Where the only record is; None if its offset has no record."""
        ...

    def shorten(self, checkpoint: Checkpoint, batch: int, end: Any) -> None:
        """Lets a batch that has started, and is not committed, end at an earlier position."""
        ...


def batch_cuts(log: Log, topics: Sequence[str]) -> BatchCuts:
    """The cuts of a query that reads these topics."""
    return EmbeddedCuts(log, topics) if isinstance(log, EmbeddedLog) else KafkaCuts(log)


@dataclass(frozen=True)
class EmbeddedCuts:
    log: EmbeddedLog
    topics: Sequence[str]

    def exceeds(self, after: Any, end: Any, rows: int) -> bool:
        return end["sequence"] > self.log.cut(self.topics, _sequence(after), rows)

    def count(self, after: Any, end: Any) -> int:
        return len(self._sequences(after, end))

    def half(self, after: Any, end: Any) -> Any:
        sequences = self._sequences(after, end)
        return {"sequence": int(sequences[len(sequences) // 2 - 1])}

    def earlier(self, end: Any, other: Any) -> Any:
        return {"sequence": min(end["sequence"], other["sequence"])}

    def only(self, after: Any, end: Any) -> RecordPlace | None:
        for batch in self.log.scan(self.topics, _sequence(after), end["sequence"]):
            for offset, sequence in _places(batch):
                return RecordPlace(batch.topic, batch.partition, offset, sequence)
        return None

    def shorten(self, checkpoint: Checkpoint, batch: int, end: Any) -> None:
        """The source cuts it again: its offset says more than a position. See `LogAdapter.split_at`."""
        if end["sequence"] < checkpoint.position(batch)["sequence"]:
            checkpoint.discard_batch(batch)

    def _sequences(self, after: Any, end: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        batches = self.log.scan(self.topics, _sequence(after), end["sequence"])
        parts = [batch.rows.column("$sequence").to_numpy() for batch in batches]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))


def _places(batch: Batch) -> Iterator[tuple[int, int | None]]:
    """Offset and sequence of each row."""
    names = ("$offset", "$sequence")
    return zip(*(batch.rows.column(name).to_pylist() for name in names), strict=True)


def _sequence(position: Any) -> int:
    return position["sequence"] if position else 0


@dataclass(frozen=True)
class KafkaCuts:
    log: Log

    def exceeds(self, after: Any, end: Any, rows: int) -> bool:
        return self.count(after, end) > rows

    def count(self, after: Any, end: Any) -> int:
        return sum(stop - start for _, _, start, stop in self._parts(after, end))

    def half(self, after: Any, end: Any) -> Any:
        parts = self._parts(after, end)
        ends = np.cumsum([stop - start for _, _, start, stop in parts])
        half_count = int(ends[-1]) // 2
        last = bisect.bisect_left(ends.tolist(), half_count)
        position: dict[str, dict[str, int]] = {topic: {} for topic in end}
        for number, (topic, partition, start, stop) in enumerate(parts):
            cut = stop - (int(ends[last]) - half_count) if number == last else stop if number < last else start
            position[topic][partition] = cut
        return position

    def earlier(self, end: Any, other: Any) -> Any:
        return {topic: self._earlier(topic, ends, other.get(topic, {})) for topic, ends in end.items()}

    def _earlier(self, topic: str, ends: dict[str, int], others: dict[str, int]) -> dict[str, int]:
        """A partition that the other position does not have is newer: it ends where it starts."""
        added = self.log.bounds(topic) if ends.keys() - others.keys() else {}
        starts = {str(partition): bounds.start for partition, bounds in added.items()}
        return {p: min(at, others.get(p, starts.get(p, 0))) for p, at in ends.items()}

    def only(self, after: Any, end: Any) -> RecordPlace | None:
        for topic, partition, start, stop in self._parts(after, end):
            if start < stop:
                batch = self.log.read(topic, int(partition), start, max_records=1)
                if any(offset == start for offset, _ in _places(batch)):
                    return RecordPlace(topic, int(partition), start)
        return None

    def shorten(self, checkpoint: Checkpoint, batch: int, end: Any) -> None:
        checkpoint.shorten_batch(batch, end)

    def _parts(self, after: Any, end: Any) -> list[tuple[str, str, int, int]]:
        """Topic, partition, and the range of offsets; records that retention has removed do not count."""
        parts: list[tuple[str, str, int, int]] = []
        for topic, ends in end.items():
            bounds, begins = self.log.bounds(topic), (after or {}).get(topic, {})
            for partition, stop in sorted(ends.items(), key=lambda one: int(one[0])):
                known = bounds.get(int(partition))
                start = max(begins.get(partition, 0), known.start if known else 0)
                parts.append((topic, partition, min(start, stop), stop))
        return parts
