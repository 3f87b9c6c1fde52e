"""The operations of workers until they are killed: small loops over a log, the same for the embedded log and Kafka.

Every row's value says where it belongs, so that the verifier can tell loss, repetition and torn appends apart:
`life-number` for single records, `append/row/rows` for rows that were appended together.
"""

from __future__ import annotations

import itertools
import random
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tests.faults.log.ack_log import AckLog
from tests.faults.log.activity import ActivityPage

from headrace.contracts import Append, Log, Subscription, TopicPartition
from headrace.errors import GroupFenced, Retry, UnknownReceipt
from headrace.log.embedded import EmbeddedLog
from headrace.log.queues import Queue
from headrace.log.stored_rows import from_records
from headrace.record import Record

KEYS = 20
_PACE = 0.003  # seconds: so that eight workers on two cores all get on


@dataclass(frozen=True)
class Worker:
    """A life: its name, its log, and where it shows and writes down what it does."""

    life: str
    log: Log
    pulse: ActivityPage
    notes: AckLog
    random: random.Random


def rows_of(append: str, count: int, padding: int) -> list[Record]:
    """Rows that belong together."""
    return [
        Record(b"%s/%d/%d/%s" % (append.encode(), i, count, b"x" * padding), key=b"k%d" % (i % KEYS))
        for i in range(count)
    ]


def produce(me: Worker) -> None:
    """Single records from a producer; each one is a promise of its own."""
    producer = me.log.producer()
    topics = [name for name in ("single", "jobs", "brief") if name in {t.name for t in me.log.topics()}]
    numbers = itertools.count()
    while True:
        topic = me.random.choice(topics)
        records = [_single(me, n) for n in itertools.islice(numbers, me.random.randint(1, 8))]
        try:
            with me.pulse.inside("send"):
                futures = [producer.send(topic, record) for record in records]
                places = [future.result() for future in futures]
        except Retry:
            continue  # not acknowledged: it may be there or not
        me.notes.note(
            *(("ack", topic, p.partition, p.offset, _text(r)) for p, r in zip(places, records, strict=True)),
        )
        time.sleep(_PACE)


def _single(me: Worker, number: int) -> Record:
    return Record(b"%s-%d" % (me.life.encode(), number), key=b"k%d" % me.random.randrange(KEYS))


def _text(record: Record) -> str:
    return (record.value or b"").decode()


def bulk(me: Worker) -> None:
    """Appends over several partitions of two topics, small ones and such as need files: all of each or nothing."""
    for number in itertools.count():
        name = f"{me.life}-{number}"
        count, padding = me.random.choice([(2, 10), (10, 50), (60, 400)])
        records = rows_of(name, count, padding)
        half = me.random.randint(1, count - 1)
        appends = [Append("bulk-a", from_records(records[:half])), Append("bulk-b", from_records(records[half:]))]
        try:
            with me.pulse.inside("append"):
                me.log.append(appends)
        except Retry:
            continue
        me.notes.note(("whole", name))
        time.sleep(_PACE)


def write(me: Worker) -> None:
    """A named writer: numbers go on where the log says that the last life ended."""
    while True:
        try:
            writer = me.log.writer("exact")
            for number in itertools.count(0 if writer.last is None else writer.last + 1):
                with me.pulse.inside("write"):
                    writer.append(number, _numbered(number))
                me.notes.note(("number", number))
                time.sleep(_PACE)
        except Retry:
            continue  # whether the last number was written is unknown: opening the writer again tells


def _numbered(number: int) -> Sequence[Append]:
    """The same rows for the same number, whoever asks."""
    exact = rows_of(str(number), 1 + number * 7 % 40, 30 + number % 5 * 60)
    keyed = [Record(b"%d" % number, key=b"k%d" % (number % KEYS))]
    return [Append("exact", from_records(exact)), Append("keyed", from_records(keyed))]


def consume(me: Worker) -> None:
    """A member of a group: writes down what it saw, then commits it."""
    consumer = me.log.consumer("readers", Subscription(topics=("single", "bulk-a")))
    while True:
        try:
            with me.pulse.inside("poll"):
                batches = consumer.poll(timedelta(milliseconds=200), max_records=500)
            for batch in batches:
                offsets, values = (batch.rows.column(name).to_pylist() for name in ("$offset", "value"))
                seen = zlib.crc32(b"\n".join(values))
                me.notes.note(("seen", batch.topic, batch.partition, offsets[0], batch.next_offset, seen))
            reached = {TopicPartition(b.topic, b.partition): b.next_offset for b in batches}
            with me.pulse.inside("commit"):
                consumer.commit(reached)
        except (GroupFenced, Retry):
            continue
        me.notes.note(*(("committed", *place, offset) for place, offset in reached.items()))
        time.sleep(_PACE)


def work(me: Worker) -> None:
    """A queue's worker: takes, and acknowledges most of what it took."""
    queue = Queue(me.log, "jobs", "crew", visibility=timedelta(seconds=1), max_deliveries=10_000)
    while True:
        begun_at = time.monotonic_ns()
        with me.pulse.inside("take"):
            taken = queue.take(me.random.randint(1, 20), timedelta(milliseconds=100))
        me.notes.note(*(("taken", begun_at, *_item(d.receipt)) for d in taken))
        done = [d.receipt for d in taken if me.random.random() < 0.9]
        try:
            with me.pulse.inside("ack"):
                queue.ack(*done)
        except UnknownReceipt:
            continue  # held for too long on a busy machine; another has it
        done_at = time.monotonic_ns()
        me.notes.note(*(("done", done_at, *_item(receipt)) for receipt in done))
        time.sleep(_PACE)


def _item(receipt: str) -> Sequence[str]:
    return receipt.split(".")[1:]


def keep(me: Worker) -> None:
    """Merging, retention, archiving, compaction, removal of files, round after round."""
    assert isinstance(me.log, EmbeddedLog)
    while True:
        with me.pulse.inside("upkeep"):
            me.log.maintenance.run(force_compaction=me.random.random() < 0.2)
        time.sleep(5 * _PACE)


ROLES: dict[str, Callable[[Worker], None]] = {
    "producer": produce,
    "bulk": bulk,
    "writer": write,
    "consumer": consume,
    "queue": work,
    "upkeep": keep,
}
