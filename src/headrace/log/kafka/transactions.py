"""Atomic appends: a transactional producer, which writes all of an append or nothing.

Rows for Kafka are *outgoing* messages with their topic and partition; delivery reports return the position of each.
Large appends use *parts*, which are encoded while they are sent: memory holds one piece of them and the producer's
queue.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from headrace.clock import Clock, millis
from headrace.contracts import Append, Appended, Topic, TopicPartition
from headrace.errors import BrokerUnreachable, Closed, HeadraceError, UserError, WriterFenced
from headrace.faultpoints import reach
from headrace.log.kafka.client import DELIVERY_TIMEOUT, METADATA_TIMEOUT, REQUEST_TIMEOUT, Client, callbacks
from headrace.log.kafka.encoding import Fields, Message, encode, encode_fields
from headrace.log.kafka.topics import Topics
from headrace.log.stored_rows import prepare_rows, split_by_partition

_TRIES = 5
_VISIBLE = 2.0  # seconds
_IDLE = 4  # idle transactional producers that are cached for the next append
_PIECE = 10_000  # rows that are encoded together

# The batch size is unchanged; a single message may be as large as its topic allows.
PRODUCER = {"message_max_bytes": 1_000_000_000, "batch_size": 1_000_000, "compression_type": "lz4"}


class Outgoing(NamedTuple):
    """A message to be sent to a partition."""

    topic: str
    partition: int
    message: Message


class PreparedPart(NamedTuple):
    """Rows of one partition, as `prepare_rows` and `split_by_partition` return them."""

    topic: Topic
    partition: int
    rows: pa.RecordBatch


def outgoing(appends: Sequence[Append], topics: Topics, clock: Clock) -> list[Outgoing]:
    """Check and encode appends; nothing is sent yet, so a bad row does not affect the others."""
    now = clock.now()
    out: list[Outgoing] = []
    for append in appends:
        topic = topics.get(append.topic)
        try:
            out += _encoded(append, topic, now)
        except UserError:
            # The cached topic may be out of date: check whether the rows fit the current one.
            changed = topics.get(append.topic, fresh=True)
            if changed == topic:
                raise
            out += _encoded(append, changed, now)
    return out


def _encoded(append: Append, topic: Topic, now: int) -> list[Outgoing]:
    rows = prepare_rows(append.rows, topic, now)
    return [
        Outgoing(topic.name, partition, message)
        for partition, piece in split_by_partition(rows, topic, append.partition)
        for message in encode(piece, topic)
    ]


class DeliveryReports:
    """Delivery reports of one append."""

    def __init__(self) -> None:
        self._places: list[tuple[str, int, int]] = []
        self.error: tuple[KafkaError, str] | None = None

    def take(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self._places.append((message.topic(), message.partition(), message.offset()))
        elif self.error is None or self.error[0].code() == KafkaError._PURGE_QUEUE:
            self.error = (error, f"{message.topic()}/{message.partition()}")

    def appended(self) -> list[Appended]:
        """Runs of consecutive offsets; one per partition, unless other producers wrote in between."""
        runs: list[Appended] = []
        for topic, partition, offset in sorted(self._places):
            last = runs[-1] if runs else None
            if last and (last.topic, last.partition, last.offset + last.count) == (topic, partition, offset):
                runs[-1] = Appended(topic, partition, last.offset, last.count + 1)
            else:
                runs.append(Appended(topic, partition, offset, 1))
        return runs


Report = Callable[[KafkaError | None, Any], None]


def send(producer: Producer, out: Outgoing, report: Report) -> None:
    """Queue a message; blocks while the queue is full."""
    topic, partition, message = out
    until = time.monotonic() + METADATA_TIMEOUT.total_seconds()
    while True:
        try:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition,
                on_delivery=report,
                timestamp=message.timestamp,
                headers=message.headers,
            )
            return
        except BufferError:
            producer.poll(0.01)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION or time.monotonic() > until:
                raise
            producer.list_topics(
                topic, REQUEST_TIMEOUT.total_seconds()
            )  # partitions were added after this producer's last metadata refresh


QueueMessages = Callable[[Producer, DeliveryReports], None]
"""Queues everything to be written; called again when a transaction is retried."""


def queue_messages(messages: Sequence[Outgoing]) -> QueueMessages:
    """Messages whose positions are reported."""

    def queue(producer: Producer, reports: DeliveryReports) -> None:
        for out in messages:
            send(producer, out, reports.take)

    return queue


def queue_parts(parts: Iterable[PreparedPart]) -> QueueMessages:
    """Parts, of which only the last position is reported. They may be iterated several times."""

    def queue(producer: Producer, reports: DeliveryReports) -> None:
        for topic, partition, rows in parts:
            for start in range(0, rows.num_rows, _PIECE):
                *most, last = encode_fields(rows.slice(start, _PIECE), topic)
                _send_all(producer, topic.name, partition, most)
                send(producer, Outgoing(topic.name, partition, Message(*last)), reports.take)

    return queue


def _send_all(producer: Producer, topic: str, partition: int, messages: Iterable[Fields]) -> None:
    """Like `send`, but cheaper, because there may be millions. Delivery reports for each message would cost more than
    everything else; if one message is not delivered, the transaction cannot be committed.
    """
    produce = producer.produce
    for fields in messages:
        key, value, at, headers = fields
        try:
            if headers:
                produce(topic, value, key, partition, timestamp=at, headers=headers)
            else:
                produce(topic, value, key, partition, timestamp=at)
        except (BufferError, KafkaException):
            send(producer, Outgoing(topic, partition, Message(*fields)), lambda error, message: None)


class TransactionalProducer:
    """A transactional producer. `run` is all or nothing; after a `failure` it must not be used again."""

    def __init__(self, client: Client, name: str, timeout_ms: int) -> None:
        self._client = client
        self._name = name
        self.failure: HeadraceError | None = None
        self._producer = Producer(
            client.config(
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                delivery_timeout_ms=min(timeout_ms, millis(DELIVERY_TIMEOUT)),
                linger_ms=5,
                **PRODUCER,
            )
        )
        with self._translated():
            self._retry_until_deadline(self._producer.init_transactions)

    def run(self, queue: QueueMessages, last: Sequence[Outgoing] = ()) -> list[Appended]:
        """Write what `queue` queues, then, once that is delivered, `last`, and commit; returns the positions."""
        with self._translated():
            for attempt in itertools.count(1):
                try:
                    return self._once(queue, last)
                except KafkaException as error:
                    inner: KafkaError = error.args[0]
                    if inner.fatal() and inner.code() != KafkaError._FATAL:
                        raise
                    # If the failure is fatal but its reason garbled (see `callbacks`), this call raises the reason.
                    self._abort()
                    if attempt == _TRIES or not (inner.retriable() or inner.txn_requires_abort()):
                        raise
        raise AssertionError("unreachable")

    def _once(self, queue: QueueMessages, last: Sequence[Outgoing]) -> list[Appended]:
        self._producer.begin_transaction()
        reports = self._deliver(queue)
        if last:
            self._deliver(queue_messages(last))
        reach("kafka.produced")
        self._retry_until_deadline(self._producer.commit_transaction)
        reach("kafka.committed")
        placed = reports.appended()
        with contextlib.suppress(HeadraceError):  # it is committed, whatever happens now
            self._await_visible(placed)
        return placed

    def _deliver(self, queue: QueueMessages) -> DeliveryReports:
        reports = DeliveryReports()
        try:
            with callbacks():
                queue(self._producer, reports)
                self._producer.flush(DELIVERY_TIMEOUT.total_seconds())
            if reports.error is not None:
                raise self._client.translate(*reports.error)
        except HeadraceError:
            self._abort()
            raise
        return reports

    def _abort(self) -> None:
        with callbacks():
            self._producer.abort_transaction(REQUEST_TIMEOUT.total_seconds())

    def _await_visible(self, placed: Sequence[Appended]) -> None:
        """Wait until readers see the commit: Kafka writes the markers a moment after it confirms the commit.

        The wait is bounded, because another producer's open transaction holds readers back as well.
        """
        ends = {TopicPartition(one.topic, one.partition): one.offset + one.count for one in placed}
        until = time.monotonic() + _VISIBLE
        while ends and time.monotonic() < until:
            visible = self._client.offsets({tp: OffsetSpec.latest() for tp in ends})
            ends = {tp: end for tp, end in ends.items() if visible[tp] < end}

    def _retry_until_deadline(self, step: Callable[[float], None]) -> None:
        """Repeat a step of the transaction as long as Kafka reports a retriable error."""
        until = time.monotonic() + DELIVERY_TIMEOUT.total_seconds()
        while True:
            try:
                with callbacks():
                    return step(REQUEST_TIMEOUT.total_seconds())
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until:
                    raise

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except HeadraceError:
            raise  # already translated, and the transaction was aborted properly
        except KafkaException as error:
            # Whether this transaction was committed may be unknown now: only opening the name again can tell.
            self.failure = self._client.translate(error, f'writer "{self._name}"')
            raise self.failure from error
        except BaseException:
            self.failure = _closed(self._name)  # interrupted within the transaction
            raise

    def close(self) -> None:
        """Release the producer; an open transaction is aborted by the next owner of the name, or by its timeout."""
        self.failure = self.failure or _closed(self._name)
        self._producer.purge()
        self._producer.flush(0)


def _closed(name: str) -> Closed:
    return Closed(
        f'writer "{name}" is closed, or failed', fix="open it again; it resumes after its last sequence number"
    )


class TransactionalProducerPool:
    """A pool of transactional producers for appends without a named writer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._idle: list[TransactionalProducer] = []
        self._lock = threading.Lock()
        self._names = (f"headrace-append-{uuid.uuid4().hex}-{n}" for n in itertools.count())

    def run(self, messages: Sequence[Outgoing]) -> list[Appended]:
        """Write messages in one transaction."""
        transactor = self._take()
        try:
            return transactor.run(queue_messages(messages))
        except WriterFenced as error:
            # No other process has this name: the broker timed the transaction out, and aborted it.
            raise BrokerUnreachable(error.what, fix="send the rows again; none of them were stored") from error
        finally:
            self._release(transactor)

    def _take(self) -> TransactionalProducer:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            name = next(self._names)
        return TransactionalProducer(self._client, name, millis(DELIVERY_TIMEOUT))

    def _release(self, transactor: TransactionalProducer) -> None:
        with self._lock:
            if transactor.failure is None and len(self._idle) < _IDLE:
                self._idle.append(transactor)
                return
        transactor.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for transactor in idle:
            transactor.close()
