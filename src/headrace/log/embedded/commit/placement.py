"""Requests to the committer, and how one transaction places them: offsets, sequences, quotas, writers' numbers."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.contracts import Ack, Appended, Topic
from headrace.errors import QuotaExceeded, WriterFenced
from headrace.log.embedded.commit import raw_records
from headrace.log.embedded.commit.mailbox import Post
from headrace.log.embedded.storage.extents import FILE, INLINE, EncodedExtent, ExtentEncoder
from headrace.log.topic_spec import unknown_topic
from headrace.record import Record
from headrace.settings import size_text

PartitionKey = tuple[int, int]  # topic id and partition
PostedPart = tuple[
    Any, ...
]  # topic, version, topic id, partition, then an extent's fields or a list of records' fields


class StaleTopic(Exception):
    """The topic was altered after the request was prepared: prepare it again."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one partition: encoded (large ones), as Arrow rows, or as a few raw records.

    Single records stay raw, also between processes: the process that commits turns all of them into one batch.
    """

    topic: Topic
    topic_id: int
    version: int
    partition: int
    count: int
    bytes: int
    rows: pa.RecordBatch | None = None
    extent: EncodedExtent | None = None
    records: Sequence[Record] | None = None


@dataclass(frozen=True, slots=True)
class WriterMark:
    """A named writer's number for an append."""

    writer: str
    epoch: int
    number: int
    note: str | None = None
    """What the writer wants to know of its last append, stored with it."""


class InlineFuture:
    """The future of a request that the waiting thread executes itself, so no thread has to be notified."""

    __slots__ = ("_error", "_result")

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._result: Any = _UNDONE

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def done(self) -> bool:
        return self._error is not None or self._result is not _UNDONE

    def set_result(self, result: Any) -> None:
        self._result = result

    def set_exception(self, error: BaseException) -> None:
        self._error = error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


_UNDONE = object()


@dataclass(slots=True)
class Request:
    """A queued append, or a catalog change (`change`)."""

    parts: Sequence[Part] = ()
    ack: Ack = Ack.ALL
    mark: WriterMark | None = None
    linger: float = 0.0
    change: Callable[[sqlite3.Connection], Any] | None = None
    future: Future[Any] | InlineFuture = field(default_factory=InlineFuture)


class CommitLoad:
    """What a group of requests adds to each partition; encoded lazily."""

    def __init__(self, requests: Sequence[Request], encoder: ExtentEncoder, now: int) -> None:
        self._encoder = encoder
        self._now = now
        self.places: dict[PartitionKey, list[Part]] = {}
        for request in requests:
            for part in request.parts:
                self.places.setdefault((part.topic_id, part.partition), []).append(part)

    @cached_property
    def bare(self) -> dict[PartitionKey, list[Record]]:
        """Partitions that get only a few records: the committing process joins these and those of other processes."""
        limit = self._encoder.inline_bytes
        return {
            place: [record for part in parts for record in part.records or ()]
            for place, parts in self.places.items()
            if all(part.records is not None for part in parts) and sum(part.bytes for part in parts) <= limit
        }

    @cached_property
    def extents(self) -> dict[PartitionKey, list[EncodedExtent]]:
        """Extents of the other partitions; small adjacent rows are joined into one extent."""
        return {place: list(self._joined(parts)) for place, parts in self.places.items() if place not in self.bare}

    @property
    def files(self) -> Iterator[str]:
        """Files written here for joined rows, if any were encoded; files of large parts belong to their callers."""
        callers_files = {part.extent.file for parts in self.places.values() for part in parts if part.extent}
        encoded = self.__dict__.get("extents", {})
        return (e.file for extents in encoded.values() for e in extents if e.file and e.file not in callers_files)

    def posted_parts(self) -> list[PostedPart]:
        """The load for another process: raw records as they are, everything else encoded."""
        posted: list[PostedPart] = []
        for place, parts in self.places.items():
            at = (parts[0].topic.name, parts[0].version, *place)
            if place in self.bare:
                posted.append((*at, None, [_fields(record) for record in self.bare[place]]))
            else:
                posted += [(*at, tuple(extent), None) for extent in self.extents[place]]
        return posted

    def _joined(self, parts: list[Part]) -> Iterator[EncodedExtent]:
        for encoded, run in itertools.groupby(parts, key=lambda part: part.extent is not None):
            if encoded:
                yield from (part.extent for part in run if part.extent)
            else:
                yield self._encoder.stage(_concat(list(self._batches(run))))

    def _batches(self, parts: Iterable[Part]) -> Iterator[pa.RecordBatch]:
        for unmade, run in itertools.groupby(parts, key=lambda part: part.records is not None):
            if unmade:
                yield raw_records.raw_rows([record for part in run for record in part.records or ()], self._now)
            else:
                yield from (part.rows for part in run if part.rows is not None)


def _fields(record: Record) -> tuple[Any, ...]:
    return (record.value, record.key, record.headers, record.occurred_at, record.sent_at, record.received_at)


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch | pa.Table:
    if len(batches) == 1:
        return batches[0]
    if all(batch.schema.equals(batches[0].schema) for batch in batches):
        return pa.concat_batches(batches)
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


class Placement:
    """The checks and placements of one transaction."""

    def __init__(self, db: sqlite3.Connection, encoder: ExtentEncoder, now: int) -> None:
        self.db = db
        self._encoder = encoder
        self._now = now
        self._bare: dict[PartitionKey, list[Record]] = {}  # records of all processes, to become one extent at the end
        self.made: list[str] = []  # files of these extents
        self._ends: dict[PartitionKey, int] = {}  # end offsets as the requests see them
        self._places: dict[PartitionKey, list[int]] = {}  # end offset, last sequence and new bytes, as they are stored
        self._added: dict[int, int] = {}
        self._versions: dict[str, tuple[int, int] | None] = {}
        self._sequence: int | None = None

    def take(self, request: Request) -> list[Appended] | None:
        """Check a request and return where its rows will go; a failed check has no effect."""
        for part in request.parts:
            self._check_topic(part)
        self._check_quota(request.parts)
        if request.mark and not self._advance(request.mark):
            return None
        return [self._place(part) for part in request.parts]

    def insert(self, load: CommitLoad) -> None:
        """Write the extents; raw records wait for those that other processes have posted."""
        for place, extents in load.extents.items():
            for extent in extents:
                self._insert(place, extent)
        for place, records in load.bare.items():
            self._buffer(place, records)

    def deliver(self, post: Post) -> list[int] | None:
        """Place another process's rows; returns the first offset in each of its partitions, None to refuse them."""
        if any(self._current(name) != (topic_id, version) for name, version, topic_id, *_ in post.parts):
            return None
        files = [fields[-1] for *_, fields, _ in post.parts if fields and fields[-1]]
        if any(not (self._encoder.folder / file).exists() for file in files):
            return None  # the poster is dead, and maintenance has removed its files
        offsets: dict[PartitionKey, int] = {}
        for _, _, topic_id, partition, fields, records in post.parts:
            place = (topic_id, partition)
            offset = (
                self._insert_posted(place, EncodedExtent(*fields)) if fields else self._buffer_posted(place, records)
            )
            offsets.setdefault(place, offset)
        return list(offsets.values())

    def _buffer(self, place: PartitionKey, records: list[Record]) -> int:
        buffered = self._bare.setdefault(place, [])
        offset = self._progress(place)[0] + len(buffered)
        buffered += records
        return offset

    def _buffer_posted(self, place: PartitionKey, records: list[tuple[Any, ...]]) -> int:
        return self._buffer(place, [Record(*fields) for fields in records])

    def _insert_posted(self, place: PartitionKey, extent: EncodedExtent) -> int:
        self._insert_buffered(place)
        return self._insert(place, extent)

    def _insert_buffered(self, place: PartitionKey) -> None:
        if records := self._bare.pop(place, None):
            extent = raw_records.stage_records(records, self._encoder, self._now)
            if extent.file:
                self.made.append(extent.file)
            self._insert(place, extent)

    def finish(self) -> int:
        """Store the new end of each partition, and the sequence, which is returned."""
        for place in list(self._bare):
            self._insert_buffered(place)
        if self._sequence is None:
            return 0
        self.db.executemany(
            "UPDATE partitions SET end_offset = ?, last_sequence = ?, bytes = bytes + ? "
            "WHERE topic = ? AND partition = ?",
            [(*progress, *place) for place, progress in self._places.items() if progress[1]],
        )
        self.db.execute("UPDATE meta SET value = ? WHERE name = 'sequence'", (self._sequence,))
        return self._sequence

    def _current(self, name: str) -> tuple[int, int] | None:
        if name not in self._versions:
            row = self.db.execute("SELECT id, version FROM topics WHERE name = ?", (name,)).fetchone()
            self._versions[name] = row
        return self._versions[name]

    def _check_topic(self, part: Part) -> None:
        current = self._current(part.topic.name)
        if current is None:
            raise unknown_topic(part.topic.name)
        if current != (part.topic_id, part.version):
            raise StaleTopic

    def _check_quota(self, parts: Sequence[Part]) -> None:
        for part in parts:
            quota = part.topic.spec.quota_bytes
            if quota is None:
                continue
            added = self._added.get(part.topic_id, 0) + sum(p.bytes for p in parts if p.topic_id == part.topic_id)
            ((stored_bytes,),) = self.db.execute("SELECT sum(bytes) FROM partitions WHERE topic = ?", (part.topic_id,))
            if stored_bytes + added > quota:
                raise QuotaExceeded(
                    f'topic "{part.topic.name}" holds {size_text(stored_bytes)} of its quota of {size_text(quota)}',
                    fix="shorten its retention, or raise the quota with `headrace topic alter`",
                )

    def _advance(self, mark: WriterMark) -> bool:
        row = self.db.execute("SELECT epoch, last FROM writers WHERE name = ?", (mark.writer,)).fetchone()
        if row is None or row[0] != mark.epoch:
            raise WriterFenced(
                f'writer "{mark.writer}" was opened again by another process',
                fix="stop this process; only one may write",
            )
        if row[1] is not None and mark.number <= row[1]:
            return False
        self.db.execute("UPDATE writers SET last = ? WHERE name = ?", (mark.number, mark.writer))
        if mark.note is not None:
            self.db.execute("INSERT OR REPLACE INTO writer_notes VALUES (?, ?)", (mark.writer, mark.note))
        return True

    def _place(self, part: Part) -> Appended:
        place = (part.topic_id, part.partition)
        offset = self._ends.setdefault(place, self._progress(place)[0])
        self._ends[place] += part.count
        self._added[part.topic_id] = self._added.get(part.topic_id, 0) + part.bytes
        return Appended(part.topic.name, part.partition, offset, part.count)

    def _progress(self, place: PartitionKey) -> list[int]:
        if place not in self._places:
            row = self.db.execute("SELECT end_offset FROM partitions WHERE topic = ? AND partition = ?", place)
            self._places[place] = [*row.fetchone(), 0, 0]
        return self._places[place]

    def _insert(self, place: PartitionKey, extent: EncodedExtent) -> int:
        if self._sequence is None:
            ((self._sequence,),) = self.db.execute("SELECT value FROM meta WHERE name = 'sequence'")
        first, self._sequence = (self._sequence or 0) + 1, (self._sequence or 0) + extent.rows
        progress = self._progress(place)
        offset = progress[0]
        progress[:] = offset + extent.rows, self._sequence, progress[2] + extent.bytes
        ranges = (offset, offset + extent.rows - 1, first, self._sequence)
        insert_extent(self.db, place, ranges, extent, FILE if extent.file else INLINE, 0, self._now)
        return offset


def insert_extent(
    db: sqlite3.Connection,
    place: PartitionKey,
    ranges: tuple[int, int, int, int],
    extent: EncodedExtent,
    kind: str,
    merged: int,
    created_at: int,
) -> None:
    """Insert an extent into the commit log; `ranges` are its first and last offset, first and last sequence."""
    db.execute(
        "INSERT INTO extents (topic, partition, base_offset, last_offset, base_sequence, last_sequence, rows, "
        "min_time, max_time, bytes, kind, merged, checksum, created_at, file, payload) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *place,
            *ranges,
            extent.rows,
            extent.min_time,
            extent.max_time,
            extent.bytes,
            kind,
            merged,
            extent.checksum,
            created_at,
            extent.file,
            extent.payload,
        ),
    )
