"""The contracts between packages: topics, the log, consumers, producers and writers. Read this first.

A **log** holds topics; a topic has partitions; a partition is a sequence of rows with rising offsets that never
change. Rows travel as Arrow record batches: the topic's own columns (a raw topic has `key` and `value`, both binary)
and the log's columns, whose names begin with `$` (see `SYSTEM_COLUMNS`).

What every log promises:

* **Acknowledged means durable.** When `append` returns with `Ack.ALL`, the rows survive kill -9 of everything.
* **Atomic.** All rows of one `append` become visible together, over all partitions and topics in it, or none do.
* **In order.** Rows of one partition keep the order in which they were appended; offsets only rise.
* **Exactly once for named writers.** A `Writer` numbers its appends; a number that is already in the log is skipped,
  and opening the writer again fences the previous owner.
* **No silent loss.** A reader whose next row was removed gets an error that names the range of removed offsets.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from headrace.record import Record, StoredRecord
from headrace.schema import RAW, Schema
from headrace.settings import Size

HEADERS_TYPE = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))

# The log's own columns. The first six may be set on append (all optional); $offset and $sequence are added on read.
SYSTEM_COLUMNS: Mapping[str, pa.DataType] = {
    "$timestamp": pa.int64(),  # ms since 1970: event time by the server's clock, corrected for the device's clock error
    "$headers": HEADERS_TYPE,
    "$deleted": pa.bool_(),  # a tombstone: the key's row is deleted (in a raw topic: the value is null)
    "$occurred_at": pa.int64(),  # device's clock
    "$sent_at": pa.int64(),  # device's clock
    "$received_at": pa.int64(),  # server's clock
    "$offset": pa.int64(),
    "$sequence": pa.int64(),  # position in the log's total order; null on Kafka, which has none
}


class Ack(enum.Enum):
    """When an append is acknowledged."""

    NONE = "none"  # queued; a crash may lose it
    WRITTEN = "written"  # survives a crash of the process, not of the machine
    ALL = "all"  # on disk (embedded) or on all in-sync replicas (Kafka)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Bounds(NamedTuple):
    """The range of offsets in a partition: `start` is the first, `end` is one after the last."""

    start: int
    end: int


@dataclass(frozen=True)
class TopicSpec:
    """The requested configuration of a topic."""

    partitions: int = 1
    schema: Schema = RAW
    partitioner: str = "hash"
    retention_time: timedelta | None = None
    retention_bytes: Size | None = None
    archive: bool = False
    compact: bool = False
    tombstone_time: timedelta = timedelta(days=1)
    quota_bytes: Size | None = None
    max_record_bytes: Size = Size(1 << 20)
    replication: int = 1


# One line of doc for each field of TopicSpec; the CLI's help and the reference come from here.
TOPIC_OPTIONS: Mapping[str, str] = {
    "partitions": "Number of partitions. It may grow later, never shrink.",
    "schema": 'Columns with types, like "id bigint key, name string". Without it the topic holds raw bytes.',
    "partitioner": "How a row finds its partition: hash, round-robin, priority:COLUMN, or module:function.",
    "retention_time": "Remove rows older than this.",
    "retention_bytes": "Remove the oldest rows of a partition while it holds more than this.",
    "archive": "Move what retention removes to Parquet files that replay still reads, instead of deleting it.",
    "compact": "Keep only the latest row of each key.",
    "tombstone_time": "How long compaction keeps the mark of a deleted key.",
    "quota_bytes": "Refuse appends that would take the topic above this size on disk.",
    "max_record_bytes": "Refuse records larger than this.",
    "replication": "Copies of each partition; Kafka only.",
}

INTERNAL_PREFIX = "__"  # internal topics: they hold the system's own data and are not listed
DEAD_LETTER_SIZE_FACTOR = 4  # times max_record_bytes: the largest record that a dead letter can hold
TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def dead_letter_topic(topic: str) -> str:
    """The dead-letter topic of a topic: rejected records, each with error code, reason and origin.

    >>> dead_letter_topic("clicks")
    'clicks.dead'
    """
    return f"{topic}.dead"


def dead_letter_spec(spec: TopicSpec) -> TopicSpec:
    """The spec of a topic's dead-letter topic: large enough for oversized records and the reason for rejecting them."""
    return TopicSpec(max_record_bytes=Size(DEAD_LETTER_SIZE_FACTOR * spec.max_record_bytes + (64 << 10)))


@dataclass(frozen=True)
class Topic:
    """A topic that exists."""

    name: str
    spec: TopicSpec
    created_at: int

    @property
    def schema(self) -> Schema:
        return self.spec.schema

    @property
    def partitions(self) -> int:
        return self.spec.partitions


@dataclass(frozen=True)
class Append:
    """Rows for one topic, or records for a raw topic. Without a partition, the partitioner chooses one for each row."""

    topic: str
    rows: pa.RecordBatch | Sequence[Record]
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Where rows were appended: `count` rows, starting at `offset`."""

    topic: str
    partition: int
    offset: int
    count: int


@dataclass(frozen=True)
class Batch:
    """Rows of one partition in offset order, with the log's columns. `next_offset` is the offset to read next."""

    topic: str
    partition: int
    rows: pa.RecordBatch
    next_offset: int

    def __len__(self) -> int:
        return self.rows.num_rows

    def where(self, filter: Filter | None) -> Batch:
        """The rows that match the filter."""
        if filter is None or not len(self):
            return self
        return replace(self, rows=self.rows.filter(filter(self)))

    def records(self) -> Iterator[StoredRecord]:
        """The rows of a raw topic, one by one."""
        columns = {name: self.rows.column(name).to_pylist() for name in self.rows.schema.names}
        nothing = [None] * len(self)
        for i in range(len(self)):
            headers = columns.get("$headers", nothing)[i] or ()
            yield StoredRecord(
                self.topic,
                self.partition,
                columns["$offset"][i],
                columns.get("$sequence", nothing)[i],
                columns["$timestamp"][i],
                Record(
                    value=columns["value"][i],
                    key=columns["key"][i],
                    headers=tuple((h["name"], h["value"]) for h in headers),
                    occurred_at=columns.get("$occurred_at", nothing)[i],
                    sent_at=columns.get("$sent_at", nothing)[i],
                    received_at=columns.get("$received_at", nothing)[i],
                ),
            )


Filter = Callable[[Batch], pa.Array]
"""Selects the rows of a content subscription: returns a boolean mask over a batch."""


@dataclass(frozen=True)
class Subscription:
    """What a consumer reads: topics by name, by a regular expression over names, and rows by content."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    where: Filter | None = None


class OffsetReset(enum.Enum):
    """What a consumer does when its next row was removed by retention."""

    ERROR = "error"
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class Member:
    id: str
    client: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupInfo:
    """The state of a consumer group: committed offsets, and the lag of each partition in rows."""

    name: str
    generation: int
    members: tuple[Member, ...]
    offsets: Mapping[TopicPartition, int]
    lag: Mapping[TopicPartition, int]


class Consumer(Protocol):
    """A member of a consumer group. Not thread-safe.

    `poll` returns rows of the partitions that are assigned to this member; `commit` stores the member's offsets.
    After a rebalance a member starts at the committed offsets, so rows that were polled but not committed are
    delivered again (at least once). A commit for a partition that was reassigned raises `GroupFenced`.
    """

    @property
    def assignment(self) -> frozenset[TopicPartition]: ...
    def poll(self, timeout: timedelta = ..., max_records: int = ...) -> list[Batch]: ...
    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None: ...
    def position(self, partition: TopicPartition) -> int: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def lag(self) -> dict[TopicPartition, int]: ...
    def close(self) -> None: ...


class Producer(Protocol):
    """Sends records one by one and commits them in groups. Thread-safe."""

    def send(self, topic: str, record: Record, partition: int | None = None) -> Future[Appended]: ...
    def flush(self, timeout: timedelta | None = None) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class WriterNote:
    """What a named writer left with its last append: the number of the append, and a text."""

    writer: str
    number: int
    note: str


class Writer(Protocol):
    """A named writer with numbered appends: the basis of idempotent producers and exactly-once sinks.

    Numbers must rise. `append` with a number at or below `last` changes nothing and returns None: it is a repeat.
    Opening a writer of the same name again fences this one: its next append raises `WriterFenced`.
    """

    name: str

    @property
    def last(self) -> int | None: ...
    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None: ...
    def close(self) -> None: ...


class Log(Protocol):
    """Topics and their partitions. Thread-safe; each process opens its own instance."""

    def create_topic(self, name: str, spec: TopicSpec = ...) -> Topic: ...
    def alter_topic(self, name: str, **changes: Any) -> Topic: ...
    def delete_topic(self, name: str) -> None: ...
    def topic(self, name: str) -> Topic: ...
    def topics(self) -> list[Topic]:
        """All topics in order of name, except internal ones (`INTERNAL_PREFIX`): `topic` returns those by name."""
        ...

    def append(self, appends: Sequence[Append], *, ack: Ack = ...) -> list[Appended]: ...
    def producer(self, *, ack: Ack = ..., linger: timedelta | None = None) -> Producer: ...
    def writer(self, name: str) -> Writer: ...
    def writer_notes(self) -> list[WriterNote]:
        """The last notes of writers that have left one, committed with their appends."""
        ...

    def forget_note(self, writer: str) -> None:
        """Remove a writer's note, if there is one."""
        ...

    def read(self, topic: str, partition: int, offset: int, *, max_records: int = ...) -> Batch:
        """Rows from `offset` on, possibly fewer than requested, none at the end. Compaction leaves gaps in offsets."""
        ...

    def bounds(self, topic: str) -> dict[int, Bounds]: ...
    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        """The first offset whose row has a timestamp at or after `timestamp`; the end offset if there is none."""
        ...

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Remove all rows below an offset."""
        ...

    def consumer(
        self,
        group: str,
        subscription: Subscription,
        *,
        start: str = "earliest",
        lost: OffsetReset = OffsetReset.ERROR,
        client: str = "",
    ) -> Consumer: ...
    def groups(self) -> list[str]: ...
    def group(self, name: str) -> GroupInfo: ...
    def reset_group(self, name: str, offsets: Mapping[TopicPartition, int]) -> None: ...
    def delete_group(self, name: str) -> None: ...

    def close(self) -> None: ...


class Ordered(Protocol):
    """A log whose rows have a total order (the embedded log). Positions are sequences; reads cover `(after, upto]`."""

    def head(self, topics: Iterable[str]) -> int:
        """The highest durable sequence among the topics' rows; 0 if there are none."""
        ...

    def removed(self, topics: Iterable[str]) -> int:
        """The highest sequence that retention has removed; 0 if none. A reader below it may have missed rows."""
        ...

    def cut(self, topics: Iterable[str], after: int, max_rows: int) -> int:
        """The furthest position with about `max_rows` rows between `after` and it."""
        ...

    def waiting(self, topics: Iterable[str], after: int) -> int:
        """The lag: approximately how many rows follow a position; 0 if and only if there are none."""
        ...

    def scan(self, topics: Iterable[str], after: int, upto: int) -> Iterator[Batch]:
        """Rows with `after < $sequence <= upto`, batch by batch."""
        ...
