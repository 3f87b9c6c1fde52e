"""Atomic appends: a transactional producer, which writes all of an append or nothing of it.

Rows for Kafka are *outgoing* messages with their topic and partition; delivery reports say where each one went. Many
rows go by *parts*, which are encoded while they are sent: memory holds a piece of them, and the producer's queue.
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
from headrace.log.kafka.client import ANSWER, DELIVERY, NEWS, Client, callbacks
from headrace.log.kafka.encoding import Fields, Message, encode, encoded
from headrace.log.kafka.topics import Topics
from headrace.log.rows import prepare, split

_TRIES = 5
_VISIBLE = 2.0  # seconds
_IDLE = 4  # transactional producers that are kept for the next append
_PIECE = 10_000  # rows that are encoded together

# A batch is as large as it was before; a single message may be as large as its topic allows.
PRODUCER = {"message_max_bytes": 1_000_000_000, "batch_size": 1_000_000, "compression_type": "lz4"}


class Outgoing(NamedTuple):
    """A message on its way to a partition."""

    topic: str
    partition: int
    message: Message


class Part(NamedTuple):
    """Rows of one partition, as `rows.prepare` and `rows.split` give them."""

    topic: Topic
    partition: int
    rows: pa.RecordBatch


def outgoing(appends: Sequence[Append], topics: Topics, clock: Clock) -> list[Outgoing]:
    """Check and encode appends; nothing is sent yet, so a bad row harms no other."""
    now = clock.now()
    out: list[Outgoing] = []
    for append in appends:
        topic = topics.get(append.topic)
        try:
            out += _encoded(append, topic, now)
        except UserError:
            # What we know of the topic may be old: see whether the rows fit it as it is now.
            changed = topics.get(append.topic, fresh=True)
            if changed == topic:
                raise
            out += _encoded(append, changed, now)
    return out


def _encoded(append: Append, topic: Topic, now: int) -> list[Outgoing]:
    rows = prepare(append.rows, topic, now)
    return [
        Outgoing(topic.name, partition, message)
        for partition, piece in split(rows, topic, append.partition)
        for message in encode(piece, topic)
    ]


class Reports:
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
        """Runs of neighbouring offsets; one per partition, unless others wrote in between."""
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
    """Queue a message; wait while the queue is full."""
    topic, partition, message = out
    until = time.monotonic() + NEWS.total_seconds()
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
            producer.list_topics(topic, ANSWER.total_seconds())  # it has grown since this producer looked at it


Queue = Callable[[Producer, Reports], None]
"""Queues all that is to be written; is called anew when a transaction is tried again."""


def each(messages: Sequence[Outgoing]) -> Queue:
    """Messages whose places are told."""

    def queue(producer: Producer, reports: Reports) -> None:
        for out in messages:
            send(producer, out, reports.take)

    return queue


def whole(parts: Iterable[Part]) -> Queue:
    """Parts, of which only the last place is told. They may be gone through several times."""

    def queue(producer: Producer, reports: Reports) -> None:
        for topic, partition, rows in parts:
            for start in range(0, rows.num_rows, _PIECE):
                *most, last = encoded(rows.slice(start, _PIECE), topic)
                _send_all(producer, topic.name, partition, most)
                send(producer, Outgoing(topic.name, partition, Message(*last)), reports.take)

    return queue


def _send_all(producer: Producer, topic: str, partition: int, messages: Iterable[Fields]) -> None:
    """As `send` does, with less ado: there may be millions. To be told of each would take more time than all else; if
    one does not arrive, the transaction cannot be committed.
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


class Transactor:
    """A transactional producer. `run` is all or nothing; after a `failure` it must not be used again."""

    def __init__(self, client: Client, name: str, timeout_ms: int) -> None:
        self._client = client
        self._name = name
        self.failure: HeadraceError | None = None
        self._producer = Producer(
            client.config(
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                delivery_timeout_ms=min(timeout_ms, millis(DELIVERY)),
                linger_ms=5,
                **PRODUCER,
            )
        )
        with self._translated():
            self._patiently(self._producer.init_transactions)

    def run(self, queue: Queue, last: Outgoing | None = None) -> list[Appended]:
        """Write what is queued, when it has arrived the last one, and commit; says where the messages went."""
        with self._translated():
            for attempt in itertools.count(1):
                try:
                    return self._once(queue, last)
                except KafkaException as error:
                    inner: KafkaError = error.args[0]
                    if inner.fatal() and inner.code() != KafkaError._FATAL:
                        raise
                    # Should the failure be fatal but its reason garbled (see `callbacks`), this call tells the reason.
                    self._abort()
                    if attempt == _TRIES or not (inner.retriable() or inner.txn_requires_abort()):
                        raise
        raise AssertionError("unreachable")

    def _once(self, queue: Queue, last: Outgoing | None) -> list[Appended]:
        self._producer.begin_transaction()
        reports = self._deliver(queue)
        if last is not None:
            self._deliver(each([last]))
        reach("kafka.produced")
        self._patiently(self._producer.commit_transaction)
        reach("kafka.committed")
        placed = reports.appended()
        with contextlib.suppress(HeadraceError):  # it is committed, whatever happens now
            self._await_visible(placed)
        return placed

    def _deliver(self, queue: Queue) -> Reports:
        reports = Reports()
        try:
            with callbacks():
                queue(self._producer, reports)
                self._producer.flush(DELIVERY.total_seconds())
            if reports.error is not None:
                raise self._client.translate(*reports.error)
        except HeadraceError:
            self._abort()
            raise
        return reports

    def _abort(self) -> None:
        with callbacks():
            self._producer.abort_transaction(ANSWER.total_seconds())

    def _await_visible(self, placed: Sequence[Appended]) -> None:
        """Wait until readers see what was committed: Kafka marks the partitions a moment after it said yes.

        Not for ever, because somebody else's open transaction keeps readers back as well.
        """
        ends = {TopicPartition(one.topic, one.partition): one.offset + one.count for one in placed}
        until = time.monotonic() + _VISIBLE
        while ends and time.monotonic() < until:
            seen = self._client.offsets({here: OffsetSpec.latest() for here in ends})
            ends = {here: end for here, end in ends.items() if seen[here] < end}

    def _patiently(self, step: Callable[[float], None]) -> None:
        """Call a step of the transaction again as long as Kafka says that this may help."""
        until = time.monotonic() + DELIVERY.total_seconds()
        while True:
            try:
                with callbacks():
                    return step(ANSWER.total_seconds())
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until:
                    raise

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except HeadraceError:
            raise  # said already, and the transaction was aborted in order
        except KafkaException as error:
            # Whether this transaction was committed may be unknown now: only opening the name anew can tell.
            self.failure = self._client.translate(error, f'writer "{self._name}"')
            raise self.failure from error
        except BaseException:
            self.failure = _closed(self._name)  # interrupted in the middle
            raise

    def close(self) -> None:
        """Let go of the producer; a transaction that is open is aborted by the next one of the name, or by time."""
        self.failure = self.failure or _closed(self._name)
        self._producer.purge()
        self._producer.flush(0)


def _closed(name: str) -> Closed:
    return Closed(f'writer "{name}" is closed, or failed', fix="open it again: it knows its last number")


class Transactors:
    """A few transactional producers for appends without a name."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._idle: list[Transactor] = []
        self._lock = threading.Lock()
        self._names = (f"headrace-append-{uuid.uuid4().hex}-{n}" for n in itertools.count())

    def run(self, messages: Sequence[Outgoing]) -> list[Appended]:
        """Write messages in one transaction."""
        transactor = self._take()
        try:
            return transactor.run(each(messages))
        except WriterFenced as error:
            # Nobody else has this name: the broker gave up waiting for the transaction, and aborted it.
            raise BrokerUnreachable(error.what, fix="send the rows again; nothing of them was kept") from error
        finally:
            self._give_back(transactor)

    def _take(self) -> Transactor:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            name = next(self._names)
        return Transactor(self._client, name, millis(DELIVERY))

    def _give_back(self, transactor: Transactor) -> None:
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
