"""The log on Apache Kafka. This module joins the parts; each part is a module of this package."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from headrace.clock import Clock, SystemClock
from headrace.contracts import (
    Ack,
    Append,
    Appended,
    Batch,
    Bounds,
    GroupInfo,
    OffsetReset,
    Subscription,
    Topic,
    TopicPartition,
    TopicSpec,
    WriterNote,
)
from headrace.errors import Closed
from headrace.log.kafka.client import Client
from headrace.log.kafka.consumer import KafkaConsumer
from headrace.log.kafka.encoding import Message
from headrace.log.kafka.groups import Groups
from headrace.log.kafka.message_decoder import MessageDecoder
from headrace.log.kafka.producer import KafkaProducer
from headrace.log.kafka.reader import Reader
from headrace.log.kafka.single_append import SingleAppender
from headrace.log.kafka.topics import Topics
from headrace.log.kafka.transactions import TransactionalProducerPool, outgoing
from headrace.log.kafka.writer import KafkaWriter
from headrace.log.kafka.writer_marks import WriterMarks
from headrace.log.kafka.writer_notes import WriterNotes
from headrace.settings import Settings


class KafkaLog:
    """`Log` on a Kafka cluster. It has no total order: `$sequence` is null."""

    def __init__(self, settings: Settings | None = None, clock: Clock | None = None) -> None:
        self.settings = settings or Settings()
        self.clock: Clock = clock or SystemClock()
        self._pid = os.getpid()
        self._client = Client(self.settings)
        self._topics = Topics(self._client, self.clock)
        self._decoder = MessageDecoder(self._client, self._topics, self.clock)
        self._reader = Reader(self._client, self._topics, self._decoder)
        self._groups = Groups(self._client, self._topics, self._reader)
        self._marks = WriterMarks(self._client)
        self._notes = WriterNotes(self._client)
        self._transactors = TransactionalProducerPool(self._client)
        self._singles = SingleAppender(self._client)
        self._consumers: WeakSet[KafkaConsumer] = WeakSet()
        self._closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> KafkaLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- topics -----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, spec: TopicSpec = TopicSpec()) -> Topic:  # noqa: B008 - frozen
        return self._open._topics.create(name, spec)

    def alter_topic(self, name: str, **changes: Any) -> Topic:
        return self._open._topics.alter(name, changes)

    def delete_topic(self, name: str) -> None:
        self._open._topics.delete(name)
        self._open._reader.forget(name)

    def topic(self, name: str) -> Topic:
        return self._open._topics.get(name, fresh=True)

    def topics(self) -> list[Topic]:
        return self._open._topics.all()

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append], *, ack: Ack = Ack.ALL) -> list[Appended]:
        """Atomic; returns where the rows went.

        One row needs no transaction and uses `ack`; several rows are one transaction, which always means `ALL`.
        """
        messages = outgoing(appends, self._open._topics, self.clock)
        if not messages:
            return []
        if len(messages) == 1:
            return self._singles.send(messages[0], ack)
        self._singles.resolve()
        placed = self._transactors.run(messages)
        return [] if ack is Ack.NONE else placed

    def producer(self, *, ack: Ack = Ack.ALL, linger: timedelta | None = None) -> KafkaProducer:
        patience = self.settings.storage.linger if linger is None else linger
        return KafkaProducer(self._open._client, self._topics, self.clock, ack, patience)

    def writer(self, name: str) -> KafkaWriter:
        return KafkaWriter(self._open._client, self._topics, self._marks, self._notes, self.clock, name)

    def writer_notes(self) -> list[WriterNote]:
        """The last notes of writers, committed with their appends."""
        return self._open._notes.read()

    def forget_note(self, writer: str) -> None:
        self._open._notes.forget(writer)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, topic: str, partition: int, offset: int, *, max_records: int = 10_000) -> Batch:
        return self._open._reader.read(topic, partition, offset, max_records)

    def bounds(self, topic: str) -> dict[int, Bounds]:
        return self._open._reader.bounds(topic)

    def ends(self, topic: str) -> dict[int, int]:
        """End offsets including open transactions, which readers do not see yet."""
        return self._open._reader.ends(topic)

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        return self._open._reader.offset_at(topic, partition, timestamp)

    def truncate(self, topic: str, partition: int, before: int) -> None:
        self._open._reader.truncate(topic, partition, before)

    def open_messages(self, topic: str, partition: int, messages: Sequence[Message]) -> pa.RecordBatch:
        """Converts messages that another reader (Spark's connector) fetched; invalid ones become dead letters."""
        return self._open._decoder.open(topic, partition, messages)

    @property
    def dead_letters(self) -> Counter[str]:
        """How many invalid messages this log object found, by topic."""
        return self._decoder.dead

    # -- groups -----------------------------------------------------------------------------------------------------

    def consumer(
        self,
        group: str,
        subscription: Subscription,
        *,
        start: str = "earliest",
        lost: OffsetReset = OffsetReset.ERROR,
        client: str = "",
    ) -> KafkaConsumer:
        parts = self._open._client, self._topics, self._reader, self._decoder
        member = KafkaConsumer(*parts, group, subscription, start, lost, client)
        self._consumers.add(member)
        return member

    def groups(self) -> list[str]:
        return self._open._groups.names()

    def group(self, name: str) -> GroupInfo:
        return self._open._groups.info(name)

    def reset_group(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._open._groups.reset(name, offsets)

    def delete_group(self, name: str) -> None:
        self._open._groups.delete(name)

    # -- close ------------------------------------------------------------------------------------------------------

    @property
    def _open(self) -> KafkaLog:
        if self._closed:
            raise Closed("the log is closed", fix="open it again")
        if os.getpid() != self._pid:
            raise Closed("the log was opened before this process was forked", fix="open it after the fork")
        return self

    def close(self) -> None:
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        parts = (self._singles, self._transactors, self._reader, self._topics, self._marks, self._notes)
        for part in (*self._consumers, *parts):
            part.close()
