"""Converts Kafka messages to rows; messages that do not fit their topic become dead letters.

Any client may write to a Kafka topic, so a typed topic may hold messages that do not fit its schema. Such a message is
copied to the dead-letter topic, with code, reason and origin as headers and its origin as the key, before the rows
around it are returned: another reader may copy it again, but it cannot get lost.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from headrace.clock import Clock
from headrace.contracts import Topic, dead_letter_spec, dead_letter_topic
from headrace.errors import BadRecord, BrokerUnreachable, TopicExists, UnknownTopic
from headrace.log.kafka.client import DELIVERY_TIMEOUT, Client
from headrace.log.kafka.encoding import Message, RejectedMessage, decode
from headrace.log.kafka.topics import Topics
from headrace.log.kafka.transactions import PRODUCER, DeliveryReports, Outgoing, send

_REMEMBERED = 10_000


def to_message(message: Any) -> Message:
    """The client library's message as a `Message`."""
    return Message(message.key(), message.value(), message.timestamp()[1], message.headers() or [], message.offset())


class MessageDecoder:
    """Decodes messages of all topics of a log. `dead` counts the invalid ones by topic."""

    def __init__(self, client: Client, topics: Topics, clock: Clock) -> None:
        self._client = client
        self._topics = topics
        self._clock = clock
        self.dead: Counter[str] = Counter()
        self._ignored: defaultdict[str, set[str]] = defaultdict(set)  # fields that are in no schema, by topic
        self._posted: OrderedDict[str, None] = OrderedDict()
        self._producer: Producer | None = None
        self._lock = threading.Lock()

    def open(self, topic: str, partition: int, messages: Sequence[Message]) -> pa.RecordBatch:
        """Messages of one partition as rows."""
        known = self._topics.get(topic)
        opened = decode(messages, known)
        if opened.misfits or opened.strange - self._ignored[topic]:
            # The schema may have just changed: check again before a message is dead-lettered or a field ignored.
            known = self._topics.get(topic, fresh=True)
            opened = decode(messages, known)
            self._ignored[topic] |= opened.strange
        if opened.misfits:
            self._write_dead_letters(known, partition, opened.misfits)
        return opened.rows

    def _write_dead_letters(self, topic: Topic, partition: int, misfits: Sequence[RejectedMessage]) -> None:
        with self._lock:
            new = {f"{topic.name}/{partition}/{m.message.offset}": m for m in misfits}
            new = {origin: misfit for origin, misfit in new.items() if origin not in self._posted}
            if not new:
                return
            self._ensure(topic)
            self._post([_dead_letter(topic.name, origin, misfit) for origin, misfit in new.items()])
            self.dead[topic.name] += len(new)
            self._posted.update(dict.fromkeys(new))
            while len(self._posted) > _REMEMBERED:
                self._posted.popitem(last=False)

    def _ensure(self, topic: Topic) -> None:
        name = dead_letter_topic(topic.name)
        try:
            self._topics.get(name)
        except UnknownTopic:
            with contextlib.suppress(TopicExists):
                self._topics.create(
                    name, replace(dead_letter_spec(topic.spec), compact=True, replication=topic.spec.replication)
                )

    def _post(self, messages: Sequence[Outgoing]) -> None:
        if self._producer is None:
            self._producer = Producer(self._client.config(enable_idempotence=True, **PRODUCER))
        reports = DeliveryReports()
        for message in messages:
            send(self._producer, message, reports.take)
        unsent = self._producer.flush(DELIVERY_TIMEOUT.total_seconds())
        if reports.error is not None:
            raise self._client.translate(*reports.error)
        if unsent:
            raise BrokerUnreachable(f"Kafka at {self._client.servers} did not respond in time", fix="read again")


def _dead_letter(topic: str, origin: str, misfit: RejectedMessage) -> Outgoing:
    message, reason = misfit
    headers = [
        *message.headers,
        ("code", BadRecord.code.encode()),
        ("reason", reason.encode()),
        ("origin", origin.encode()),
        ("key", message.key),
    ]
    # Without a value it would be a tombstone, which compaction removes.
    value = b"" if message.value is None else message.value
    return Outgoing(dead_letter_topic(topic), 0, Message(origin.encode(), value, max(message.timestamp, 1), headers))
