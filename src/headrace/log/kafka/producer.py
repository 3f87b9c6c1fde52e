"""A producer on Kafka: single records, delivered in the background, each with a future for its position."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.clock import Clock, millis
from headrace.contracts import Ack, Append, Appended, Topic
from headrace.errors import BrokerUnreachable, Closed, HeadraceError
from headrace.log.kafka.client import DELIVERY_TIMEOUT, Client, callbacks
from headrace.log.kafka.encoding import EARLIEST_TIME, KafkaHeaders, Message, header_times
from headrace.log.kafka.topics import Topics
from headrace.log.kafka.transactions import PRODUCER, Outgoing, outgoing, send
from headrace.log.row_sizes import record_size
from headrace.log.stored_rows import from_records
from headrace.record import Record, event_time

ANY_PARTITION = -1
ACKS: dict[Ack, dict[str, Any]] = {
    Ack.NONE: {"acks": 0},
    Ack.WRITTEN: {"acks": 1},
    Ack.ALL: {"acks": "all", "enable_idempotence": True},
}


class KafkaProducer:
    """See `contracts.Producer`. Its queue is bounded: `send` blocks while Kafka does not keep up."""

    def __init__(self, client: Client, topics: Topics, clock: Clock, ack: Ack, linger: timedelta) -> None:
        self._client = client
        self._topics = topics
        self._clock = clock
        self._ack = ack
        self._failure: HeadraceError | None = None
        self._pending: set[Future[Appended]] = set()
        config = client.config(
            linger_ms=millis(linger),
            delivery_timeout_ms=millis(DELIVERY_TIMEOUT),
            partitioner="murmur2_random",
            **PRODUCER,
            **ACKS[ack],
        )
        self._producer = Producer(config)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="headrace-kafka-producer", daemon=True)
        self._thread.start()

    def send(self, topic: str, record: Record, partition: int | None = None) -> Future[Appended]:
        if self._closed.is_set():
            raise Closed("the producer is closed", fix="create a new one")
        out = self._outgoing(topic, record, partition)
        future: Future[Appended] = Future()
        self._pending.add(future)
        send(self._producer, out, lambda e, m: self._report(future, e, m))
        if self._ack is Ack.NONE:
            nowhere: Future[Appended] = Future()
            nowhere.set_result(Appended(topic, -1 if partition is None else partition, -1, 1))
            return nowhere
        return future

    def flush(self, timeout: timedelta | None = None) -> None:
        """Wait until everything sent is acknowledged; raises the first failure."""
        limit = (timeout if timeout is not None else DELIVERY_TIMEOUT * 2).total_seconds()
        if self._producer.flush(limit):
            raise BrokerUnreachable(
                f"Kafka at {self._client.servers} did not acknowledge all records within {limit:g} s", fix="flush again"
            )
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            self.flush()
        finally:
            self._thread.join()

    @property
    def idle(self) -> bool:
        """Whether no record is in flight."""
        return len(self._producer) == 0

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                with callbacks():
                    self._producer.poll(0.1)
            except KafkaException as error:
                self._fail(self._client.translate(error))

    def _fail(self, failure: HeadraceError) -> None:
        """The library failed permanently: records in flight will never be reported."""
        self._failure = failure
        self._closed.set()
        for future in list(self._pending):
            if not future.done():
                future.set_exception(failure)

    def _report(self, future: Future[Appended], error: KafkaError | None, message: Any) -> None:
        self._pending.discard(future)
        if error is None:
            offset = message.offset()  # unknown if no broker acknowledged it
            future.set_result(Appended(message.topic(), message.partition(), -1 if offset is None else offset, 1))
        else:
            self._failure = self._client.translate(error, f"{message.topic()}/{message.partition()}")
            future.set_exception(self._failure)

    def _outgoing(self, name: str, record: Record, partition: int | None) -> Outgoing:
        topic = self._topics.get(name)
        if partition is None and self._is_plain(topic, record):
            return Outgoing(name, ANY_PARTITION, self._message(record))
        # The slow path makes the same choices and raises the same errors as an append.
        (out,) = outgoing([Append(name, from_records([record]), partition)], self._topics, self._clock)
        return out

    def _is_plain(self, topic: Topic, record: Record) -> bool:
        """Whether Kafka's own client does the same as `prepare_rows` and `split_by_partition`, only faster."""
        fits = record_size(record) <= topic.spec.max_record_bytes
        return topic.schema.is_raw and topic.spec.partitioner == "hash" and fits

    def _message(self, record: Record) -> Message:
        now = self._clock.now()
        received = now if record.received_at is None else record.received_at
        at = event_time(record.occurred_at, record.sent_at, received)
        has_sender_time = record.occurred_at is not None or record.sent_at is not None
        times = (
            ("$timestamp", at if at < EARLIEST_TIME else None),
            ("$occurred_at", record.occurred_at),
            ("$sent_at", record.sent_at),
            ("$received_at", received if has_sender_time else record.received_at),
        )
        headers: KafkaHeaders = [*record.headers, *header_times(times)]
        return Message(record.key, record.value, max(at, EARLIEST_TIME), headers)
