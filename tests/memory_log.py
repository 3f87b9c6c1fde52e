"""A log in memory, for the state machines of what stands on a log: queues and folded topics.

It shares no code with the real logs, so that no error of theirs is repeated here. It holds rows as dicts, and has what
queues and folded topics need: no consumer groups, no total order, no limits. The oracle of the logs themselves is
`tests/contract/expected_log.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import pyarrow as pa

from headrace.clock import Clock, SystemClock
from headrace.contracts import SYSTEM_COLUMNS, Ack, Append, Appended, Batch, Bounds, Topic, TopicSpec
from headrace.errors import OffsetOutOfRange, TopicExists, UnknownTopic, WriterFenced
from headrace.record import Record

Row = dict[str, Any]


@dataclass
class Partition:
    start: int = 0
    end: int = 0
    rows: list[Row] = field(default_factory=list)


class MemoryLog:
    """Everything is a list or a dict; nothing is fast."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._topics: dict[str, Topic] = {}
        self._partitions: dict[str, list[Partition]] = {}
        self._writers: dict[str, tuple[int, int | None]] = {}  # epoch, last number
        self._sequence = itertools.count(1)
        self._turn = itertools.count()

    # -- topics -----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, spec: TopicSpec = TopicSpec()) -> Topic:  # noqa: B008 - frozen
        if name in self._topics:
            raise TopicExists(name)
        self._topics[name] = Topic(name, spec, self.clock.now())
        self._partitions[name] = [Partition() for _ in range(spec.partitions)]
        return self._topics[name]

    def alter_topic(self, name: str, *, partitions: int) -> Topic:
        topic = self.topic(name)
        self._topics[name] = replace(topic, spec=replace(topic.spec, partitions=partitions))
        self._partitions[name] += [Partition() for _ in range(partitions - topic.partitions)]
        return self._topics[name]

    def delete_topic(self, name: str) -> None:
        self.topic(name)
        del self._topics[name], self._partitions[name]

    def topic(self, name: str) -> Topic:
        if name not in self._topics:
            raise UnknownTopic(name)
        return self._topics[name]

    def topics(self) -> list[Topic]:
        return [self._topics[name] for name in sorted(self._topics) if not name.startswith("__")]

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append], *, ack: Ack = Ack.ALL) -> list[Appended]:
        placed = [(one.topic, self._place(one, row), row) for one in appends for row in _rows(one)]
        # Nothing is stored until every row has its place: that is the atomicity.
        offsets: dict[tuple[str, int], list[int]] = {}
        for topic, partition, row in placed:
            offsets.setdefault((topic, partition), []).append(self._store(topic, partition, row))
        return [Appended(*place, found[0], len(found)) for place, found in offsets.items()]

    def _place(self, append: Append, row: Row) -> int:
        topic = self.topic(append.topic)
        if append.partition is not None:
            return append.partition
        is_hashed = topic.spec.partitioner == "hash" and _has_key(topic, row)
        return (crc32(repr(_key(topic, row)).encode()) if is_hashed else next(self._turn)) % topic.partitions

    def _store(self, topic: str, number: int, row: Row) -> int:
        partition = self._partitions[topic][number]
        time = row.get("$timestamp") or row.get("$occurred_at") or self.clock.now()
        own = {"$timestamp": time, "$offset": partition.end, "$sequence": next(self._sequence)}
        partition.rows.append({**row, **own})
        partition.end += 1
        return own["$offset"]

    def writer(self, name: str) -> MemoryWriter:
        epoch, last = self._writers.get(name, (0, None))
        self._writers[name] = (epoch + 1, last)
        return MemoryWriter(self, name, epoch + 1)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, topic: str, partition: int, offset: int, *, max_records: int = 10_000) -> Batch:
        found = self._at(topic, partition, offset)
        rows = [row for row in found.rows if row["$offset"] >= offset]
        next_offset = rows[max_records - 1]["$offset"] + 1 if len(rows) >= max_records else found.end
        columns = pa.schema([*self.topic(topic).schema.arrow, *SYSTEM_COLUMNS.items()])
        return Batch(topic, partition, pa.RecordBatch.from_pylist(rows[:max_records], columns), next_offset)

    def bounds(self, topic: str) -> dict[int, Bounds]:
        self.topic(topic)
        return {i: Bounds(p.start, p.end) for i, p in enumerate(self._partitions[topic])}

    def _at(self, topic: str, partition: int, offset: int) -> Partition:
        start, end = self.bounds(topic)[partition]
        if not start <= offset <= end:
            raise OffsetOutOfRange(f"{topic}/{partition} has offsets {start} to {end}, not {offset}")
        return self._partitions[topic][partition]

    # -- removing ---------------------------------------------------------------------------------------------------

    def truncate(self, topic: str, partition: int, before: int) -> None:
        found = self._at(topic, partition, before)
        found.start, found.rows = before, [row for row in found.rows if row["$offset"] >= before]

    def compact(self) -> None:
        """In compacted topics, keep the last row of each key, at its own offset; rows without a key stay."""
        for topic in self._topics.values():
            for partition in self._partitions[topic.name] if topic.spec.compact else ():
                last = {_key(topic, row): row["$offset"] for row in partition.rows}
                partition.rows = [
                    row
                    for row in partition.rows
                    if not _has_key(topic, row) or last[_key(topic, row)] == row["$offset"]
                ]

    def close(self) -> None:
        """There is nothing to close."""


def _key(topic: Topic, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in topic.schema.key)


def _has_key(topic: Topic, row: Row) -> bool:
    return any(part is not None for part in _key(topic, row))


def _rows(append: Append) -> Iterator[Row]:
    if isinstance(append.rows, pa.RecordBatch):
        yield from append.rows.to_pylist()
        return
    for record in append.rows:
        yield _row(record)


def _row(record: Record) -> Row:
    headers = [{"name": name, "value": value} for name, value in record.headers]
    times = {f"${name}": getattr(record, name) for name in ("occurred_at", "sent_at", "received_at")}
    return {"key": record.key, "value": record.value, "$headers": headers or None, **times}


class MemoryWriter:
    """Holds the name as long as nobody else opens it."""

    def __init__(self, log: MemoryLog, name: str, epoch: int) -> None:
        self.name = name
        self._log = log
        self._epoch = epoch

    @property
    def last(self) -> int | None:
        return self._log._writers[self.name][1]

    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        epoch, last = self._log._writers[self.name]
        if epoch != self._epoch:
            raise WriterFenced(f'writer "{self.name}" was opened again')
        if last is not None and number <= last:
            return None
        appended = self._log.append(appends)
        self._log._writers[self.name] = (epoch, number)
        return appended

    def close(self) -> None:
        """The name stays ours until somebody else opens it."""
