"""The `Log` contract in memory, written to be obviously right: the reference that real logs are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from headrace.clock import Clock, SystemClock, millis
from headrace.contracts import (
    Ack,
    Append,
    Appended,
    Batch,
    Bounds,
    GroupInfo,
    Member,
    OffsetReset,
    Subscription,
    Topic,
    TopicPartition,
    TopicSpec,
)
from headrace.errors import GroupNotEmpty, OffsetOutOfRange, UnknownGroup, UnknownPartition, WriterFenced
from headrace.log import topic_spec as rules
from headrace.log.partitioners import key_bytes
from headrace.log.stored_rows import conform_rows, from_records, prepare_rows, read_schema, split_by_partition
from headrace.record import Record
from headrace.schema import Schema
from tests.model_consumer_group import Group, ModelConsumer


@dataclass
class Row:
    """One stored row: a batch of one, as `prepare` made it."""

    offset: int
    sequence: int
    stored: pa.RecordBatch

    @property
    def timestamp(self) -> int:
        return self.stored.column("$timestamp")[0].as_py()


@dataclass
class Partition:
    start: int = 0
    end: int = 0
    rows: list[Row] = field(default_factory=list)


class ModelLog:
    """Everything is a list or a dict; nothing is fast."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._topics: dict[str, Topic] = {}
        self._partitions: dict[str, list[Partition]] = {}
        self._writers: dict[str, tuple[int, int | None]] = {}  # epoch, last number
        self._groups: dict[str, Group] = {}
        self._sequence = itertools.count(1)
        self._ids = itertools.count(1)

    # -- topics -----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, spec: TopicSpec = TopicSpec()) -> Topic:  # noqa: B008 - frozen
        rules.check_new_topic(name, spec)
        if name in self._topics:
            raise rules.topic_exists(name)
        self._topics[name] = Topic(name, spec, self.clock.now())
        self._partitions[name] = [Partition() for _ in range(spec.partitions)]
        self._rebalance_all()
        return self._topics[name]

    def alter_topic(self, name: str, **changes: Any) -> Topic:
        topic = self.topic(name)
        self._topics[name] = replace(topic, spec=rules.altered_spec(topic, changes))
        added = self._topics[name].partitions - topic.partitions
        self._partitions[name] += [Partition() for _ in range(added)]
        self._rebalance_all()
        return self._topics[name]

    def delete_topic(self, name: str) -> None:
        self.topic(name)
        del self._topics[name], self._partitions[name]
        for group in self._groups.values():
            group.offsets = {p: o for p, o in group.offsets.items() if p.topic != name}
        self._rebalance_all()

    def topic(self, name: str) -> Topic:
        if name not in self._topics:
            raise rules.unknown_topic(name)
        return self._topics[name]

    def topics(self) -> list[Topic]:
        return [self._topics[name] for name in sorted(self._topics)]

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append], *, ack: Ack = Ack.ALL) -> list[Appended]:
        parts = [
            (append.topic, partition, piece)
            for append in appends
            for partition, piece in split_by_partition(
                prepare_rows(append.rows, self.topic(append.topic), self.clock.now()),
                self.topic(append.topic),
                append.partition,
            )
        ]  # all checks are done before the first row is stored: that is the atomicity
        return [self._store(*part) for part in parts]

    def _store(self, topic: str, number: int, rows: pa.RecordBatch) -> Appended:
        partition = self._partitions[topic][number]
        first = partition.end
        for i in range(rows.num_rows):
            partition.rows.append(Row(partition.end, next(self._sequence), rows.slice(i, 1)))
            partition.end += 1
        return Appended(topic, number, first, rows.num_rows)

    def producer(self, *, ack: Ack = Ack.ALL, linger: timedelta | None = None) -> ModelProducer:
        return ModelProducer(self)

    def writer(self, name: str) -> ModelWriter:
        epoch, last = self._writers.get(name, (0, None))
        self._writers[name] = (epoch + 1, last)
        return ModelWriter(self, name, epoch + 1)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, topic: str, partition: int, offset: int, *, max_records: int = 10_000) -> Batch:
        held = self._partition(topic, partition)
        self._check(topic, partition, offset)
        rows = [row for row in held.rows if row.offset >= offset]
        next_offset = rows[max_records - 1].offset + 1 if len(rows) >= max_records else held.end
        return self._batch(topic, partition, rows[:max_records], next_offset)

    def _batch(self, topic: str, partition: int, rows: list[Row], next_offset: int) -> Batch:
        shape = read_schema(self.topic(topic).schema)
        batches = [
            pa.RecordBatch.from_arrays(
                [*conform_rows(row.stored, self.topic(topic).schema), pa.array([row.offset]), pa.array([row.sequence])],
                schema=shape,
            )
            for row in rows
        ]
        merged = pa.Table.from_batches(batches, shape).combine_chunks().to_batches()
        return Batch(topic, partition, merged[0] if merged else pa.RecordBatch.from_pylist([], shape), next_offset)

    def bounds(self, topic: str) -> dict[int, Bounds]:
        self.topic(topic)
        return {i: Bounds(p.start, p.end) for i, p in enumerate(self._partitions[topic])}

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        held = self._partition(topic, partition)
        return next((row.offset for row in held.rows if row.timestamp >= timestamp), held.end)

    def truncate(self, topic: str, partition: int, before: int) -> None:
        held = self._partition(topic, partition)
        self._check(topic, partition, before)
        held.start = before
        held.rows = [row for row in held.rows if row.offset >= before]

    def _partition(self, topic: str, partition: int) -> Partition:
        if partition not in self.bounds(topic):
            raise UnknownPartition(f'topic "{topic}" has no partition {partition}')
        return self._partitions[topic][partition]

    def _check(self, topic: str, partition: int, offset: int) -> None:
        held = self._partition(topic, partition)
        if not held.start <= offset <= held.end:
            raise OffsetOutOfRange(f"offset {offset} is not held: {held.start} to {held.end}")

    # -- one order --------------------------------------------------------------------------------------------------

    def head(self, topics: Iterable[str]) -> int:
        return max((row.sequence for _, _, row in self._ordered(topics)), default=0)

    def removed(self, topics: Iterable[str]) -> int:
        return min((row.sequence for _, _, row in self._ordered(topics)), default=1) - 1

    def cut(self, topics: Iterable[str], after: int, max_rows: int) -> int:
        beyond = [row.sequence for _, _, row in self._ordered(topics) if row.sequence > after]
        return beyond[:max_rows][-1] if beyond else after

    def waiting(self, topics: Iterable[str], after: int) -> int:
        return sum(row.sequence > after for _, _, row in self._ordered(topics))

    def scan(self, topics: Iterable[str], after: int, upto: int) -> Iterator[Batch]:
        for topic, partition, row in self._ordered(topics):
            if after < row.sequence <= upto:
                yield self._batch(topic, partition, [row], row.offset + 1)

    def _ordered(self, topics: Iterable[str]) -> list[tuple[str, int, Row]]:
        rows = [(t, i, row) for t in topics for i, p in enumerate(self._partitions[t]) for row in p.rows]
        return sorted(rows, key=lambda item: item[2].sequence)

    # -- groups -----------------------------------------------------------------------------------------------------

    def consumer(
        self,
        group: str,
        subscription: Subscription,
        *,
        start: str = "earliest",
        lost: OffsetReset = OffsetReset.ERROR,
        client: str = "",
    ) -> ModelConsumer:
        member = ModelConsumer(self, group, f"{client or 'consumer'}-{next(self._ids):04}", subscription, start, lost)
        self._groups.setdefault(group, Group()).members[member.id] = member
        self._rebalance(self._groups[group])
        return member

    def _rebalance_all(self) -> None:
        for group in self._groups.values():
            self._rebalance(group)

    def _rebalance(self, group: Group) -> None:
        """Partitions in order, dealt out one by one to the members who want them."""
        group.generation += 1
        members = list(group.members.values())
        for member in members:
            member.positions = {}
        turn = 0
        for topic in self.topics():
            wanting = [m for m in members if m.wants(topic.name)]
            for number in range(topic.partitions if wanting else 0):
                member = wanting[turn % len(wanting)]
                partition = TopicPartition(topic.name, number)
                start, end = self.bounds(topic.name)[number]
                group.offsets.setdefault(partition, start if member.start == "earliest" else end)
                member.positions[partition] = group.offsets[partition]
                turn += 1

    def groups(self) -> list[str]:
        return sorted(self._groups)

    def group(self, name: str) -> GroupInfo:
        group = self._known(name)
        members = tuple(Member(m.id, m.id, tuple(sorted(m.positions))) for m in group.members.values())
        lag = {p: self.bounds(p.topic)[p.partition].end - at for p, at in group.offsets.items()}
        return GroupInfo(name, group.generation, members, dict(group.offsets), lag)

    def reset_group(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._check(*partition, offset)
        self._idle(self._groups.setdefault(name, Group()), name).offsets.update(offsets)

    def delete_group(self, name: str) -> None:
        self._idle(self._known(name), name)
        del self._groups[name]

    def _known(self, name: str) -> Group:
        if name not in self._groups:
            raise UnknownGroup(f'group "{name}" does not exist')
        return self._groups[name]

    @staticmethod
    def _idle(group: Group, name: str) -> Group:
        if group.members:
            raise GroupNotEmpty(f'group "{name}" has members')
        return group

    def close(self) -> None:
        """There is nothing to close."""


class ModelProducer:
    """Every record is a commit of its own."""

    def __init__(self, log: ModelLog) -> None:
        self._log = log

    def send(self, topic: str, record: Record, partition: int | None = None) -> Future[Appended]:
        future: Future[Appended] = Future()
        try:
            future.set_result(self._log.append([Append(topic, from_records([record]), partition)])[0])
        except Exception as error:
            future.set_exception(error)
        return future

    def flush(self, timeout: timedelta | None = None) -> None:
        """All is done already."""

    def close(self) -> None:
        """There is nothing to close."""


class ModelWriter:
    """Holds the name as long as nobody else opens it."""

    def __init__(self, log: ModelLog, name: str, epoch: int) -> None:
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


# -- upkeep, as plain functions over partitions ----------------------------------------------------------------------


def expire(log: ModelLog, topic: str, now: int) -> None:
    """Retention by time: remove rows from the front while they are too old."""
    limit = log.topic(topic).spec.retention_time
    for number, partition in enumerate(log._partitions[topic]):
        old = itertools.takewhile(lambda r: limit is not None and r.timestamp < now - millis(limit), partition.rows)
        gone = [row.offset for row in old]
        if gone:
            log.truncate(topic, number, gone[-1] + 1)


def compact(log: ModelLog, topic: str) -> None:
    """Keep the last row of each key, at its own offset; rows without a key stay."""
    schema: Schema = log.topic(topic).schema
    for partition in log._partitions[topic]:
        keys = [key_bytes(row.stored, schema)[0].as_py() for row in partition.rows]
        last = {key: i for i, key in enumerate(keys)}
        partition.rows = [r for i, r in enumerate(partition.rows) if keys[i] is None or last[keys[i]] == i]
