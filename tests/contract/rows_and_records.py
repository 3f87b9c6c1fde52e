"""Rows to append and rows as they were read, in the shapes that tests compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from headrace.contracts import Append, Batch, Consumer, Log
from headrace.log.stored_rows import from_records
from headrace.record import Record, StoredRecord

SHORT = timedelta(milliseconds=200)


def raw(*values: bytes | None, key: bytes | None = None) -> pa.RecordBatch:
    return from_records([Record(value, key) for value in values])


def keyed(*pairs: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    return from_records([Record(value, key) for key, value in pairs])


def put(log: Log, topic: str, *values: bytes | None, partition: int | None = None) -> None:
    log.append([Append(topic, raw(*values), partition)])


def read_all(log: Log, topic: str, partition: int = 0, step: int = 3) -> list[Batch]:
    """All batches of a partition, read in small steps."""
    start, end = log.bounds(topic)[partition]
    batches: list[Batch] = []
    while start < end:
        batches.append(log.read(topic, partition, start, max_records=step))
        assert batches[-1].next_offset > start
        start = batches[-1].next_offset
    return [batch for batch in batches if len(batch)]


def records(log: Log, topic: str, partition: int = 0) -> list[StoredRecord]:
    return [record for batch in read_all(log, topic, partition) for record in batch.records()]


def values(log: Log, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in records(log, topic, partition)]


def columns(log: Log, topic: str, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of partition 0."""
    return [tuple(row[name] for name in names) for batch in read_all(log, topic) for row in batch.rows.to_pylist()]


def values_in(batches: Sequence[Batch]) -> list[bytes | None]:
    return [value for batch in batches for value in batch.rows.column("value").to_pylist()]


def polled(consumer: Consumer, count: int, seconds: float = 30.0) -> list[bytes | None]:
    """Values that a consumer gets, until there are so many; fewer if they do not come."""
    found: list[bytes | None] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found += values_in(consumer.poll(SHORT))
    return found


def until(condition: Callable[[], bool], *consumers: Consumer, seconds: float = 30.0) -> None:
    """Let consumers poll until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        for consumer in consumers:
            consumer.poll(timedelta(milliseconds=20))
