"""The expected content of a log, as lists and dicts. It takes offsets from the log and checks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.clock import millis
from headrace.contracts import Append, Appended, Batch, Bounds, Log, TopicPartition, TopicSpec

Places = Mapping[int, tuple[Bounds, list[int]]]


@dataclass
class Row:
    offset: int
    sequence: int | None
    timestamp: int
    row: dict[str, Any]

    def key(self, spec: TopicSpec) -> Any:
        parts = tuple(self.row[name] for name in spec.schema.key)
        return None if all(part is None for part in parts) else parts

    def deleted(self, spec: TopicSpec) -> bool:
        return bool(self.row["$deleted"]) or (spec.schema.is_raw and self.row["value"] is None)


@dataclass
class Partition:
    start: int = 0
    end: int = 0
    rows: list[Row] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)

    def remove(self, before: int) -> None:
        """Rows below an offset are gone."""
        self.start = before
        self.removed += [row for row in self.rows if row.offset < before]
        self.rows = [row for row in self.rows if row.offset >= before]


class Model:
    """Rows by topic and partition, and a group's committed offsets.

    Offsets are dense, but for up to `marks` behind each append that the log may keep for itself.
    """

    def __init__(self, marks: int = 0) -> None:
        self.marks = marks
        self.topics: dict[str, list[Partition]] = {}
        self.specs: dict[str, TopicSpec] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.sequence = 0

    def create(self, name: str, spec: TopicSpec) -> None:
        self.specs[name] = spec
        self.topics[name] = [Partition() for _ in range(spec.partitions)]

    def grow(self, name: str, partitions: int) -> None:
        self.topics[name] += [Partition() for _ in range(partitions - len(self.topics[name]))]

    def default(self, name: str, column: str, value: Any) -> None:
        for row in self.rows([name]):
            row.row[column] = value

    # -- rows -------------------------------------------------------------------------------------------------------

    def placed(self, appends: Sequence[Append], appended: Sequence[Appended], log: Log) -> None:
        """Take in rows that the log says it placed: at the end, in order, and the rows that were given."""
        kept = [(place.topic, row) for place in appended for row in self._taken_in(place, log)]
        for topic, partition in {(place.topic, place.partition) for place in appended}:
            self._check_end(self.topics[topic][partition], log.bounds(topic)[partition])
        self._check_sequences([row["$sequence"] for _, row in kept])
        given = [(append.topic, row) for append in appends for row in append.rows.to_pylist()]
        assert len(given) == len(kept)
        for topic, row in given:
            assert any(topic == place and {**found, **row} == found for place, found in kept)

    def _taken_in(self, place: Appended, log: Log) -> Iterator[dict[str, Any]]:
        partition = self.topics[place.topic][place.partition]
        assert place.offset == partition.end
        while partition.end < place.offset + place.count:
            left = place.offset + place.count - partition.end
            batch = log.read(place.topic, place.partition, partition.end, max_records=left)
            assert len(batch)
            for row in batch.rows.to_pylist():
                assert row["$offset"] == partition.end
                partition.rows.append(Row(row["$offset"], row["$sequence"], row["$timestamp"], row))
                partition.end += 1
                yield row

    def _check_end(self, partition: Partition, bounds: Bounds) -> None:
        assert partition.end <= bounds.end <= partition.end + self.marks
        partition.end = bounds.end

    def _check_sequences(self, found: Sequence[int | None]) -> None:
        """Dense over the whole log, where it has one order."""
        if any(sequence is not None for sequence in found):
            assert sorted(found) == list(range(self.sequence + 1, self.sequence + 1 + len(found)))
            self.sequence += len(found)

    def bounds(self, topic: str) -> dict[int, Bounds]:
        return {i: Bounds(p.start, p.end) for i, p in enumerate(self.topics[topic])}

    def rows(self, topics: Iterable[str]) -> list[Row]:
        return [row for topic in topics for partition in self.topics[topic] for row in partition.rows]

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        held = self.topics[topic][partition]
        return next((row.offset for row in held.rows if row.timestamp >= timestamp), held.end)

    def check(self, batch: Batch, offset: int, ahead: bool = False) -> None:
        """The batch is exactly what is held from an offset up to its end; `ahead`: and perhaps what is gone already."""
        held = self.topics[batch.topic][batch.partition]
        found = batch.rows.to_pylist()
        early = [row for row in found if ahead and row["$offset"] < held.start]
        assert early == [row.row for row in held.removed if row.offset in {one["$offset"] for one in early}]
        assert found == early + [row.row for row in held.rows if offset <= row.offset < batch.next_offset]

    # -- removing ---------------------------------------------------------------------------------------------------

    def truncate(self, topic: str, partition: int, before: int) -> None:
        self.topics[topic][partition].remove(before)

    def tidied(self, topic: str, found: Places, now: int, forced: bool) -> None:
        """Upkeep ran: check that what it removed was to be removed, and forget it too."""
        spec = self.specs[topic]
        for number, (bounds, offsets) in found.items():
            held = self.topics[topic][number]
            assert bounds.end == held.end
            self._check_removed([row for row in held.rows if row.offset < bounds.start], spec, now)
            self.truncate(topic, number, bounds.start)
            gone = [row for row in held.rows if row.offset not in set(offsets)]
            assert spec.compact or not gone
            last = {row.key(spec): row.offset for row in held.rows}
            for row in gone:
                assert row.key(spec) is not None
                assert last[row.key(spec)] > row.offset or row.deleted(spec)
            held.rows = [row for row in held.rows if row.offset in set(offsets)]
            if spec.compact and forced and not spec.archive:  # what is archived is left as it is
                keys = [row.key(spec) for row in held.rows if row.key(spec) is not None]
                assert len(keys) == len(set(keys))

    def _check_removed(self, rows: list[Row], spec: TopicSpec, now: int) -> None:
        if rows:
            assert not spec.archive
            if spec.retention_bytes is None:
                assert spec.retention_time is not None
                assert all(row.timestamp < now - millis(spec.retention_time) for row in rows)

    # -- groups -----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.committed.update(offsets)
