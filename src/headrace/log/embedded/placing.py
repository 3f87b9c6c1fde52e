"""What is asked of the committer, and how one transaction places it: offsets, sequences, quotas, writers' numbers."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.contracts import Ack, Appended, Topic
from headrace.errors import QuotaExceeded, WriterFenced
from headrace.log.embedded.extents import FILE, INLINE, Extent, Writer
from headrace.log.embedded.mailbox import Post
from headrace.log.topics import unknown
from headrace.settings import size_text

Place = tuple[int, int]  # topic id and partition


class Stale(Exception):
    """The topic was changed since the request was prepared: prepare it again."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one partition: encoded already (large ones), or to be encoded together with others."""

    topic: Topic
    topic_id: int
    version: int
    partition: int
    count: int
    bytes: int
    rows: pa.RecordBatch | None = None
    extent: Extent | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A named writer's number for an append."""

    writer: str
    epoch: int
    number: int


@dataclass(slots=True)
class Request:
    """An append in the queue, or a change of the catalog (`change`)."""

    parts: Sequence[Part] = ()
    ack: Ack = Ack.ALL
    mark: Mark | None = None
    linger: float = 0.0
    change: Callable[[sqlite3.Connection], Any] | None = None
    future: Future[Any] = field(default_factory=Future)


def encode(requests: Sequence[Request], encoder: Writer) -> dict[Place, list[Extent]]:
    """The extents of some requests by partition: small rows that follow each other are joined into one."""
    places: dict[Place, list[Part]] = {}
    for request in requests:
        for part in request.parts:
            places.setdefault((part.topic_id, part.partition), []).append(part)
    return {place: list(_join(parts, encoder)) for place, parts in places.items()}


def _join(parts: list[Part], encoder: Writer) -> Iterator[Extent]:
    for encoded, run in itertools.groupby(parts, key=lambda part: part.extent is not None):
        if encoded:
            yield from (part.extent for part in run if part.extent)
        else:
            yield encoder.stage(_concat([part.rows for part in run if part.rows is not None]))


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch | pa.Table:
    if len(batches) == 1:
        return batches[0]
    if all(batch.schema.equals(batches[0].schema) for batch in batches):
        return pa.concat_batches(batches)
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


class Placing:
    """One transaction's checks and placements."""

    def __init__(self, db: sqlite3.Connection, now: int) -> None:
        self.db = db
        self._now = now
        self._ends: dict[Place, int] = {}  # as the requests see them
        self._places: dict[Place, list[int]] = {}  # end offset, last sequence and new bytes, as they are written
        self._added: dict[int, int] = {}
        self._versions: dict[str, tuple[int, int] | None] = {}
        self._sequence: int | None = None

    def take(self, request: Request) -> list[Appended] | None:
        """Check a request and say where its rows will go; a check that fails leaves no trace."""
        for part in request.parts:
            self._check_topic(part)
        self._check_quota(request.parts)
        if request.mark and not self._advance(request.mark):
            return None
        return [self._place(part) for part in request.parts]

    def insert(self, encoded: dict[Place, list[Extent]]) -> None:
        """Write the extents."""
        for place, extents in encoded.items():
            for extent in extents:
                self._insert(place, extent)

    def deliver(self, post: Post, files: Path) -> list[int] | None:
        """Place another process's rows; returns the first offset in each of its places, None to refuse them."""
        if any(self._current(name) != (topic_id, version) for name, version, topic_id, *_ in post.parts):
            return None
        parts = [((topic_id, partition), Extent(*fields)) for _, _, topic_id, partition, *fields in post.parts]
        if any(extent.file and not (files / extent.file).exists() for _, extent in parts):
            return None  # the poster is dead, and upkeep has removed what it left
        offsets: dict[Place, int] = {}
        for place, extent in parts:
            offset = self._insert(place, extent)
            offsets.setdefault(place, offset)
        return list(offsets.values())

    def finish(self) -> int:
        """Store what was reached in each partition, and the sequence, which is returned."""
        if self._sequence is None:
            return 0
        self.db.executemany(
            "UPDATE partitions SET end_offset = ?, last_sequence = ?, bytes = bytes + ? "
            "WHERE topic = ? AND partition = ?",
            [(*reached, *place) for place, reached in self._places.items() if reached[1]],
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
            raise unknown(part.topic.name)
        if current != (part.topic_id, part.version):
            raise Stale

    def _check_quota(self, parts: Sequence[Part]) -> None:
        for part in parts:
            quota = part.topic.spec.quota_bytes
            if quota is None:
                continue
            added = self._added.get(part.topic_id, 0) + sum(p.bytes for p in parts if p.topic_id == part.topic_id)
            ((held,),) = self.db.execute("SELECT sum(bytes) FROM partitions WHERE topic = ?", (part.topic_id,))
            if held + added > quota:
                raise QuotaExceeded(
                    f'topic "{part.topic.name}" holds {size_text(held)} of its quota of {size_text(quota)}',
                    fix="shorten its retention, raise the quota (headrace topic alter), or append less",
                )

    def _advance(self, mark: Mark) -> bool:
        row = self.db.execute("SELECT epoch, last FROM writers WHERE name = ?", (mark.writer,)).fetchone()
        if row is None or row[0] != mark.epoch:
            raise WriterFenced(
                f'writer "{mark.writer}" was opened by another process', fix="stop this one; only one may write"
            )
        if row[1] is not None and mark.number <= row[1]:
            return False
        self.db.execute("UPDATE writers SET last = ? WHERE name = ?", (mark.number, mark.writer))
        return True

    def _place(self, part: Part) -> Appended:
        place = (part.topic_id, part.partition)
        offset = self._ends.setdefault(place, self._reached(place)[0])
        self._ends[place] += part.count
        self._added[part.topic_id] = self._added.get(part.topic_id, 0) + part.bytes
        return Appended(part.topic.name, part.partition, offset, part.count)

    def _reached(self, place: Place) -> list[int]:
        if place not in self._places:
            row = self.db.execute("SELECT end_offset FROM partitions WHERE topic = ? AND partition = ?", place)
            self._places[place] = [*row.fetchone(), 0, 0]
        return self._places[place]

    def _insert(self, place: Place, extent: Extent) -> int:
        if self._sequence is None:
            ((self._sequence,),) = self.db.execute("SELECT value FROM meta WHERE name = 'sequence'")
        first, self._sequence = (self._sequence or 0) + 1, (self._sequence or 0) + extent.rows
        reached = self._reached(place)
        offset = reached[0]
        reached[:] = offset + extent.rows, self._sequence, reached[2] + extent.bytes
        ranges = (offset, offset + extent.rows - 1, first, self._sequence)
        insert_extent(self.db, place, ranges, extent, FILE if extent.file else INLINE, 0, self._now)
        return offset


def insert_extent(
    db: sqlite3.Connection,
    place: Place,
    ranges: tuple[int, int, int, int],
    extent: Extent,
    kind: str,
    merged: int,
    created_at: int,
) -> None:
    """Name an extent in the commit log; `ranges` are its first and last offset, first and last sequence."""
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
