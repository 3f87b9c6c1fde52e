"""The rows of table `engine`: clicks `(user, page, amount)`, a millisecond apart, from a fixed seed.

The same rows in four shapes: a typed topic of the embedded log, a raw one, Parquet files, JSON in Kafka keyed by user.
A topic in Kafka is filled once in a run of the table and then read by every side that needs the same rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.tables import log_kafka
from headrace.contracts import Ack, Append, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.schema import Schema

SCHEMA = Schema.parse("user string key, page string, amount bigint")
PARTITIONS = 2
START = 1_767_225_600_000  # 2026-01-01
STEP_MS = 1
WINDOW_MS = 60_000
LEAST = 900_000  # of a million: the filter lets a tenth through: reading is what is compared, more than writing
_BATCH = 100_000
_PAGES = 1_000
_KEPT = {"retention.ms": "-1"}  # our clicks are old: Kafka would drop them within seconds
_ROOM = {"queue_buffering_max_messages": 2 * _BATCH}


def clicks(count: int, users: int) -> Iterator[pa.RecordBatch]:
    """Batches of rows with their times; sums of the amounts, which are integers, do not depend on the order of rows."""
    dice = np.random.default_rng(7)
    names = pa.array([f"user-{number:07d}" for number in range(users)])
    pages = pa.array([f"/page/{number:04d}" for number in range(_PAGES)])
    for start in range(0, count, _BATCH):
        rows = min(_BATCH, count - start)
        yield pa.RecordBatch.from_pydict(
            {
                "user": names.take(pa.array(dice.integers(0, users, rows))),
                "page": pages.take(pa.array(dice.integers(0, _PAGES, rows))),
                "amount": pa.array(dice.integers(0, 1_000_000, rows)),
                "$timestamp": pa.array(START + STEP_MS * np.arange(start, start + rows)),
            }
        )


def expected(query: str, count: int, users: int) -> int:
    """The expected total of a query over these rows: the rows of a filter, otherwise the sum of all counts."""
    if query != "filter":
        return count
    return sum(int((batch.column("amount").to_numpy() > LEAST).sum()) for batch in clicks(count, users))


def fill_typed(log: EmbeddedLog, topic: str, count: int, users: int) -> None:
    log.create_topic(topic, TopicSpec(schema=SCHEMA))
    for rows in clicks(count, users):
        log.append([Append(topic, rows)], ack=Ack.ALL)


def fill_raw(log: EmbeddedLog, topic: str, count: int, users: int) -> None:
    log.create_topic(topic, TopicSpec())
    for rows in clicks(count, users):
        log.append([Append(topic, raw(rows))], ack=Ack.ALL)


FILLERS = {"typed": fill_typed, "raw": fill_raw}


def raw(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The bytes that Kafka would hold."""
    keys, values, _ = zip(*_messages(rows), strict=True)
    columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    return pa.RecordBatch.from_pydict({**columns, "$timestamp": rows.column("$timestamp")})


def write_parquet(folder: Path, count: int, users: int) -> Path:
    """A file for each of the partitions' worth of rows, several row groups in each."""
    folder.mkdir(parents=True)
    batches = [_dated(batch) for batch in clicks(count, users)]
    share = -(-len(batches) // PARTITIONS)
    for number in range(PARTITIONS):
        part = pa.Table.from_batches(batches[number * share : (number + 1) * share], batches[0].schema)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=_BATCH, coerce_timestamps="ms")
    return folder


def _dated(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.column("$timestamp").cast(pa.timestamp("ms", "UTC"))
    names = ("user", "page", "amount")
    return pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), at], [*names, "at"])


def kafka_topic(servers: str, count: int, users: int) -> str:
    """The topic with these rows as JSON; filled by the first caller."""
    name = f"clicks-{count}-{users}"
    if make_topic(servers, name):
        sender = log_kafka.producer(servers, compression_type="lz4", linger_ms=20, batch_size=1_000_000, **_ROOM)
        for rows in clicks(count, users):
            for key, value, at in _messages(rows):  # one by one: batches accept no timestamps
                sender.produce(name, value, key, partition=zlib.crc32(key) % PARTITIONS, timestamp=at)
            sender.flush()
    if (stored := log_kafka.stored(servers, name, PARTITIONS)) != count:
        raise RuntimeError(f"topic {name} holds {stored} records, not {count}")
    return name


def make_topic(servers: str, name: str, **config: str) -> bool:
    """Creates the topic; False if it exists."""
    admin = AdminClient({"bootstrap.servers": servers})  # a reference is kept: the request ends with its client
    try:
        admin.create_topics([NewTopic(name, PARTITIONS, 1, config={**_KEPT, **config})])[name].result()
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
        return False
    return True


def _messages(rows: pa.RecordBatch) -> Iterator[tuple[bytes, bytes, int]]:
    columns = (rows.column(name).to_pylist() for name in ("user", "page", "amount", "$timestamp"))
    for user, page, amount, at in zip(*columns, strict=True):
        yield user.encode(), b'{"page":"%s","amount":%d}' % (page.encode(), amount), at
