"""The latest value of each key in one partition of a compacted topic, cached in memory and kept up to date."""

# confluent_kafka.admin does not declare what it exports.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from headrace.contracts import TopicPartition
from headrace.errors import BrokerUnreachable, TopicExists
from headrace.log.kafka.client import REQUEST_TIMEOUT, Client, retry_on_election

_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": "0.1"}
_BROKERS_CHOICE = -1


class CompactedTopic:
    """A small map that all processes share. Reading it costs one request when nothing changed."""

    def __init__(self, client: Client, topic: str, partition: int = 0, partitions: int = 1) -> None:
        self._client = client
        self.topic = topic
        self._partition = TopicPartition(topic, partition)
        self._wanted = partitions
        self._values: dict[str, bytes] = {}
        self._position = 0
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._partitions = 0  # 0: the topic is not known to exist
        self._lock = threading.Lock()

    def ensure(self) -> int:
        """Create the topic unless it exists; returns the number of its partitions."""
        if self._partitions or self._exists():
            return self._partitions
        new_topic = NewTopic(self.topic, self._wanted, _BROKERS_CHOICE, config=_CONFIG)
        request = self._client.admin.create_topics([new_topic], request_timeout=REQUEST_TIMEOUT.total_seconds())
        with contextlib.suppress(TopicExists):
            self._client.answer(request[self.topic], self.topic)
        until = time.monotonic() + REQUEST_TIMEOUT.total_seconds()
        while not self._exists() and time.monotonic() < until:
            time.sleep(0.01)  # the controller responds before the other brokers know the topic
        if not self._partitions:
            raise BrokerUnreachable(f"Kafka at {self._client.servers} did not respond in time", where=self.topic)
        return self._partitions

    @retry_on_election
    def read(self, upto: int | None = None) -> Mapping[str, bytes]:
        """All current values by key, or those at least up to an offset."""
        with self._lock:
            if not self._partitions and not self._exists():
                return {}
            try:
                self._follow(upto)
            except KafkaException as error:
                raise self._client.translate(error, self.topic) from error
            return dict(self._values)

    def write(self, key: str, value: bytes | None) -> None:
        """Set a key's value, or remove it; on return it is on all in-sync replicas."""
        self.ensure()
        if self._producer is None:
            self._producer = Producer(self._client.config(enable_idempotence=True, delivery_timeout_ms=10_000))
        failed: list[KafkaError] = []
        self._producer.produce(
            self.topic,
            value,
            key.encode(),
            self._partition.partition,
            on_delivery=lambda e, _: failed.append(e) if e else None,
        )
        unsent = self._producer.flush(REQUEST_TIMEOUT.total_seconds() + 5)
        if failed or unsent:
            raise self._client.translate(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT), self.topic)

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
            self._consumer = self._producer = None

    def _exists(self) -> bool:
        try:
            metadata = self._client.admin.list_topics(timeout=REQUEST_TIMEOUT.total_seconds()).topics.get(self.topic)
        except KafkaException as error:
            raise self._client.translate(error) from error
        self._partitions = len(metadata.partitions) if metadata is not None else 0
        return self._partitions > 0

    def _follow(self, upto: int | None) -> None:
        consumer, tp = self._open(), self._partition
        end = self._client.offsets({tp: OffsetSpec.latest()})[tp] if upto is None else upto
        if self._position >= end:
            return
        until = time.monotonic() + REQUEST_TIMEOUT.total_seconds()
        consumer.assign([KafkaPartition(*tp, self._position)])
        while self._position < end:
            for message in consumer.consume(1000, timeout=0.02):
                self._take(message)
            if time.monotonic() > until:
                raise BrokerUnreachable(
                    f"Kafka at {self._client.servers} did not respond in time: offset {end} is not readable yet",
                    where=str(tp),
                    fix="try again: Kafka aborts a transaction that a crash left open within a minute",
                )
        consumer.unassign()  # an idle consumer sends no fetches

    def _open(self) -> Consumer:
        if self._consumer is None:
            config = self._client.config(
                group_id="headrace-register",
                enable_auto_commit=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
                fetch_wait_max_ms=20,
            )
            self._consumer = Consumer(config)
        return self._consumer

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            self._position = message.offset()
        elif error is not None:
            raise KafkaException(error)
        else:
            key, value = message.key().decode(), message.value()
            self._position = message.offset() + 1
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
