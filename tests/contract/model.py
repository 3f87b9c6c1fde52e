"""What the embedded log should hold, as lists and dicts. It takes offsets from the log and checks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.clock import millis
from headrace.contracts import Append, Appended, Batch, Bounds, TopicPartition, TopicSpec

Places = Mapping[int, tuple[Bounds, list[int]]]


@dataclass
class Row:
    offset: int
    sequence: int
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


class Model:
    """Rows by topic and partition, and a group's committed offsets."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Partition]] = {}
        self.specs: dict[str, TopicSpec] = {}
        self.writers: dict[str, Any] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.members: set[str] = set()
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

    def placed(
        self, appends: Sequence[Append], appended: Sequence[Appended], read: Callable[[str, int, int, int], Batch]
    ) -> None:
        """Take in rows that the log says it placed: dense offsets, rising sequences, and the rows that were given."""
        given = [row for append in appends for row in append.rows.to_pylist()]
        assert sum(place.count for place in appended) == len(given)
        kept: list[tuple[str, dict[str, Any]]] = []
        for place in appended:
            partition = self.topics[place.topic][place.partition]
            assert place.offset == partition.end
            batch = read(place.topic, place.partition, place.offset, place.count).rows.to_pylist()
            assert [row["$offset"] for row in batch] == list(range(place.offset, place.offset + place.count))
            for row in batch:
                partition.rows.append(Row(row["$offset"], row["$sequence"], row["$timestamp"], row))
                kept.append((place.topic, row))
            partition.end += place.count
        sequences = sorted(row["$sequence"] for _, row in kept)
        assert sequences == list(range(self.sequence + 1, self.sequence + 1 + len(kept)))
        self.sequence += len(kept)
        for append in appends:
            for row in append.rows.to_pylist():
                assert any(
                    topic == append.topic and all(found[name] == value for name, value in row.items())
                    for topic, found in kept
                )

    def bounds(self, topic: str) -> dict[int, Bounds]:
        return {i: Bounds(p.start, p.end) for i, p in enumerate(self.topics[topic])}

    def rows(self, topics: Iterable[str]) -> list[Row]:
        return [row for topic in topics for partition in self.topics[topic] for row in partition.rows]

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        held = self.topics[topic][partition]
        return next((row.offset for row in held.rows if row.timestamp >= timestamp), held.end)

    def check(self, batch: Batch, offset: int) -> None:
        """The batch is exactly what is held from an offset up to the batch's end."""
        held = self.topics[batch.topic][batch.partition].rows
        expected = [row.row for row in held if offset <= row.offset < batch.next_offset]
        assert batch.rows.to_pylist() == expected

    # -- removing ---------------------------------------------------------------------------------------------------

    def truncate(self, topic: str, partition: int, before: int) -> None:
        held = self.topics[topic][partition]
        held.start = before
        held.rows = [row for row in held.rows if row.offset >= before]

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

    def join(self, member: str) -> None:
        self.members.add(member)

    def leave(self, member: str) -> None:
        self.members.discard(member)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.committed.update(offsets)
