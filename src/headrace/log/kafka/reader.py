"""Reads Kafka by offset, without a consumer group.

Readers see committed rows only. Transaction markers occupy offsets, so offsets have gaps, and there may be no rows at
all before the end of a partition.
"""

# confluent_kafka.admin does not declare what it exports.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from headrace.contracts import Batch, Bounds, TopicPartition
from headrace.errors import BrokerUnreachable, OffsetOutOfRange, UnknownPartition
from headrace.log.kafka.client import REQUEST_TIMEOUT, Client
from headrace.log.kafka.encoding import Message
from headrace.log.kafka.message_decoder import MessageDecoder, to_message
from headrace.log.kafka.topics import Topics

MOST_AT_ONCE = 1_000_000  # limit of the client library
_IDLE = 8  # idle cursors that are cached for the next read
_COUNTED = 64  # a lag up to this is counted row by row
_LOOKED_AT = 100


class Reader:
    """Rows and bounds of partitions."""

    def __init__(self, client: Client, topics: Topics, decoder: MessageDecoder) -> None:
        self._client = client
        self._topics = topics
        self._decoder = decoder
        self._idle: list[Cursor] = []
        self._lock = threading.Lock()

    def read(self, name: str, partition: int, offset: int, max_records: int) -> Batch:
        tp = TopicPartition(name, partition)
        end = self.check_offset(tp, offset).end
        messages, next_offset = self._fetch(tp, offset, end, max_records)
        return Batch(name, partition, self._decoder.open(name, partition, messages), next_offset)

    def bounds(self, name: str) -> dict[int, Bounds]:
        """The first and end offsets of each partition."""
        topic = self._topics.get(name)
        by_partition = self.bounds_of(TopicPartition(name, p) for p in range(topic.partitions))
        return {tp.partition: bounds for tp, bounds in by_partition.items()}

    def bounds_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        places = list(partitions)
        starts = self._client.offsets({tp: OffsetSpec.earliest() for tp in places})
        ends = self._client.offsets({tp: OffsetSpec.latest() for tp in places})
        return {tp: Bounds(starts[tp], ends[tp]) for tp in places}

    def ends(self, name: str) -> dict[int, int]:
        places = [TopicPartition(name, partition) for partition in range(self._topics.get(name).partitions)]
        offsets = self._client.offsets({tp: OffsetSpec.latest() for tp in places}, committed=False)
        return {tp.partition: end for tp, end in offsets.items()}

    def check_offset(self, tp: TopicPartition, offset: int) -> Bounds:
        """The partition's bounds; raises if the offset is outside of them."""
        self._check(*tp)
        bounds = self.bounds_of([tp])[tp]
        if not bounds.start <= offset <= bounds.end:
            raise OffsetOutOfRange(
                f"offset {offset} does not exist: the partition has offsets {bounds.start} to {bounds.end}",
                where=str(tp),
                fix=f"read from {bounds.start} (earliest) or {bounds.end} (latest)",
            )
        return bounds

    def offset_at(self, name: str, partition: int, timestamp: int) -> int:
        tp = TopicPartition(name, partition)
        self._check(name, partition)
        offset = self._client.offsets({tp: OffsetSpec.for_timestamp(max(timestamp, 0))})[tp]
        end = self.bounds_of([tp])[tp].end
        # Kafka may return a transaction marker, which has a timestamp but is not a row: find the row behind it.
        while 0 <= offset < end:
            messages, next_offset = self._fetch(tp, offset, end, _LOOKED_AT)
            late = next((m.offset for m in messages if m.timestamp >= timestamp), None)
            if late is not None:
                return late
            offset = next_offset
        return end

    def truncate(self, name: str, partition: int, before: int) -> None:
        tp = TopicPartition(name, partition)
        self._check(name, partition)
        bounds = self.bounds_of([tp])[tp]
        if before <= bounds.start:
            return
        self.check_offset(tp, before)
        (done,) = self._client.admin.delete_records([KafkaPartition(name, partition, before)]).values()
        self._client.answer(done, str(tp))

    def lag(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Rows beyond each position; a small number is exact, a large one may include transaction markers."""
        bounds = self.bounds_of(positions) if positions else {}
        return {tp: self._count(tp, max(at, bounds[tp].start), bounds[tp].end) for tp, at in positions.items()}

    def forget(self, topic: str) -> None:
        """Discard what was read ahead of a topic, because it is deleted."""
        with self._lock:
            outdated = [cursor for cursor in self._idle if cursor.at is not None and cursor.at[0].topic == topic]
            self._idle = [cursor for cursor in self._idle if cursor not in outdated]
        for cursor in outdated:
            cursor.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for cursor in idle:
            cursor.close()

    def _check(self, name: str, partition: int) -> None:
        topic = self._topics.get(name)
        if partition >= topic.partitions:
            topic = self._topics.get(name, fresh=True)  # it may have new partitions
        if not 0 <= partition < topic.partitions:
            raise UnknownPartition(
                f'topic "{name}" has no partition {partition}', fix=f"its partitions are 0 to {topic.partitions - 1}"
            )

    def _count(self, tp: TopicPartition, start: int, end: int) -> int:
        rows = 0
        if end - start > _COUNTED:
            return end - start
        while start < end:
            messages, start = self._fetch(tp, start, end, _COUNTED)
            rows += len(messages)
        return rows

    def _fetch(self, tp: TopicPartition, offset: int, end: int, max_records: int) -> tuple[list[Message], int]:
        if offset >= end or max_records <= 0:
            return [], offset
        cursor = self._take(tp, offset)
        if cursor is not None:
            # What it read ahead may be outdated: the topic may have been deleted and created again since.
            with contextlib.suppress(OffsetOutOfRange):
                return self._fetch_by(cursor, tp, offset, end, max_records)
        return self._fetch_by(Cursor(self._client), tp, offset, end, max_records)

    def _fetch_by(
        self, cursor: Cursor, tp: TopicPartition, offset: int, end: int, max_records: int
    ) -> tuple[list[Message], int]:
        try:
            fetched = cursor.fetch(tp, offset, end, max_records)
        except BaseException:
            cursor.close()
            raise
        self._release(cursor)
        return fetched

    def _take(self, tp: TopicPartition, offset: int) -> Cursor | None:
        """An idle cursor: one that is at the offset or, if the cache is full, the oldest."""
        with self._lock:
            fitting = next((c for c in self._idle if c.at == (tp, offset)), None)
            cursor = fitting or (self._idle[0] if len(self._idle) == _IDLE else None)
            if cursor is not None:
                self._idle.remove(cursor)
            return cursor

    def _release(self, cursor: Cursor) -> None:
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(cursor)
                return
        cursor.close()


class Cursor:
    """A consumer at one position, which has read ahead there."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.at: tuple[TopicPartition, int] | None = None
        self._consumer = Consumer(
            client.config(
                group_id="headrace-reader",  # required, but never joined
                enable_auto_commit=False,
                auto_offset_reset="error",
                enable_partition_eof=True,
                isolation_level="read_committed",
                fetch_wait_max_ms=20,
                queued_max_messages_kbytes=16 << 10,
            )
        )

    def fetch(self, tp: TopicPartition, offset: int, end: int, max_records: int) -> tuple[list[Message], int]:
        """Messages from an offset up to `end`, and the next offset to read."""
        if self.at != (tp, offset):
            self._consumer.assign([KafkaPartition(*tp, offset)])
        messages: list[Message] = []
        position = offset
        until = time.monotonic() + REQUEST_TIMEOUT.total_seconds()
        while position == offset:
            if time.monotonic() > until:
                raise BrokerUnreachable(f"Kafka at {self._client.servers} did not respond in time", where=str(tp))
            position = self._gather(messages, max_records, position, tp)
        self.at = (tp, position)
        if position >= end:
            self._consumer.unassign()  # an idle cursor sends no fetches
            self.at = None
        return messages, position

    def _gather(self, messages: list[Message], max_records: int, position: int, tp: TopicPartition) -> int:
        first = self._consumer.poll(0.5)
        more = min(max_records - 1, MOST_AT_ONCE)
        arrived = [first, *self._consumer.consume(more, timeout=0)] if first is not None else []
        for message in arrived:
            position = self._accept(message, messages, position, tp)
        return position

    def _accept(self, message: Any, messages: list[Message], position: int, tp: TopicPartition) -> int:
        if (message.topic(), message.partition()) != tp and message.topic() is not None:
            return position  # an error of an earlier assignment
        error = message.error()
        if error is None:
            messages.append(to_message(message))
            return message.offset() + 1
        if error.code() == KafkaError._PARTITION_EOF:
            return max(position, message.offset())
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return position
        raise self._client.translate(error, str(tp)) from KafkaException(error)

    def close(self) -> None:
        self._consumer.close()
