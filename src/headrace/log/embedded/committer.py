"""Group commit: appends of many threads go into one transaction, and one sync serves them all.

Callers prepare and encode large rows themselves, on their own threads; the committer places what is ready: it gives
offsets and sequences, inserts the extents and moves writers' numbers, all in one transaction. While it syncs, the
next group gathers. A request that cannot be done fails alone.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from headrace.contracts import Ack, Appended, Topic
from headrace.errors import Closed, HeadraceError, LogBusy, QuotaExceeded, WriterFenced
from headrace.log.embedded.extents import FILE, INLINE, Extent, Writer
from headrace.log.embedded.store import Store
from headrace.log.topics import unknown
from headrace.settings import size_text

_MOST = 4096  # requests in one group
_STOP = object()


class Stale(Exception):
    """The topic was changed since the request was prepared: prepare it again."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one partition: encoded already (large ones), or to be encoded together with others."""

    topic: Topic
    topic_id: int
    version: int
    partition: int
    rows: pa.RecordBatch | None = None
    extent: Extent | None = None

    @property
    def count(self) -> int:
        return self.extent.rows if self.extent else self.rows.num_rows  # type: ignore[union-attr]

    @property
    def bytes(self) -> int:
        return self.extent.bytes if self.extent else self.rows.nbytes  # type: ignore[union-attr]


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


class Committer:
    """One thread that owns all writing of this process."""

    def __init__(self, store: Store, encoder: Writer, now: Callable[[], int], timeout: timedelta) -> None:
        self._store = store
        self._encoder = encoder
        self._now = now
        self._timeout = timeout.total_seconds()
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="headrace-commit", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Future[Any]:
        """Queue a request; its future gives the list of `Appended` (None: the writer's number was there before)."""
        if self._closed:
            raise Closed("the log is closed", fix="open it again")
        self._queue.put(request)
        return request.future

    def change(self, change: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run a change of the catalog in a transaction of its own and wait until it is on the disk."""
        return self.wait(self.submit(Request(change=change)))

    def wait(self, future: Future[Any]) -> Any:
        """The result, or `LogBusy` when the write lock was not to be had; then nothing was written."""
        try:
            return future.result(self._timeout)
        except FutureTimeout:
            if future.cancel():
                raise LogBusy(
                    f"the log's write lock was not free for {self._timeout:g} s",
                    where=str(self._store.folder),
                    fix="look for a stopped process that uses this data folder, and end it",
                ) from None
            return future.result()

    def close(self) -> None:
        """Finish what is queued, then stop."""
        self._closed = True
        self._queue.put(_STOP)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            group, going = self._gather()
            if not group:
                continue
            for _, run in itertools.groupby(group, key=lambda r: id(r) if r.change else 0):
                self._try(list(run))

    def _try(self, run: list[Request]) -> None:
        """Commit appends together, a change of the catalog alone. The thread lives on whatever happens."""
        try:
            self._commit(run)
        except BaseException as error:
            for request in run:
                if not request.future.done():
                    request.future.set_exception(error)

    def _gather(self) -> tuple[list[Request], bool]:
        first = self._queue.get()
        if first is _STOP:
            return [], False
        if first.linger:
            time.sleep(first.linger)
        group = [first]
        with contextlib.suppress(queue.Empty):
            while len(group) < _MOST:
                item = self._queue.get_nowait()
                if item is _STOP:
                    return group, False
                group.append(item)
        return group, True

    def _commit(self, group: list[Request]) -> None:
        done: list[tuple[Request, Any]] = []
        with self._store.transaction() as db:
            live = [r for r in group if r.future.set_running_or_notify_cancel()]
            placing = _Placing(db, self._encoder, self._now())
            for request in live:
                if request.change:
                    done.append((request, request.change(db)))
                    continue
                try:
                    done.append((request, placing.take(request)))
                except (HeadraceError, Stale) as error:
                    request.future.set_exception(error)
            sequence = placing.finish()
        self._store.bell.page.committed = max(self._store.bell.page.committed, sequence)
        self._settle(done, sequence)

    def _settle(self, done: list[tuple[Request, Any]], sequence: int) -> None:
        changed = any(request.change for request, _ in done)
        if changed:
            self._store.bell.page.catalog = (self._store.bell.page.catalog + 1) & 0xFFFFFFFF
        if changed or any(request.ack is Ack.ALL for request, _ in done):
            self._store.sync(None if changed else sequence)
        self._store.bell.ring()
        for request, result in done:
            request.future.set_result(result)


class _Placing:
    """One transaction's placements: rows of the same partition are joined into one extent."""

    def __init__(self, db: sqlite3.Connection, encoder: Writer, now: int) -> None:
        self._db = db
        self._encoder = encoder
        self._now = now
        self._pending: dict[tuple[int, int], list[Part]] = {}
        self._ends: dict[tuple[int, int], int] = {}
        self._added: dict[int, int] = {}
        self._versions: dict[str, tuple[int, int] | None] = {}
        self._sequence: int | None = None

    def take(self, request: Request) -> list[Appended] | None:
        """Check a request, then place its parts; a check that fails leaves no trace."""
        for part in request.parts:
            self._check_topic(part)
        self._check_quota(request.parts)
        if request.mark and not self._advance(request.mark):
            return None
        return [self._place(part) for part in request.parts]

    def finish(self) -> int:
        """Write the joined extents; returns the sequence that is reached."""
        for (topic_id, partition), parts in self._pending.items():
            self._write(topic_id, partition, parts)
        if self._sequence is None:
            return 0
        self._db.execute("UPDATE meta SET value = ? WHERE name = 'sequence'", (self._sequence,))
        return self._sequence

    def _check_topic(self, part: Part) -> None:
        name = part.topic.name
        if name not in self._versions:
            row = self._db.execute("SELECT id, version FROM topics WHERE name = ?", (name,)).fetchone()
            self._versions[name] = row
        current = self._versions[name]
        if current is None:
            raise unknown(name)
        if current != (part.topic_id, part.version):
            raise Stale

    def _check_quota(self, parts: Sequence[Part]) -> None:
        for part in parts:
            quota = part.topic.spec.quota_bytes
            if quota is None:
                continue
            added = self._added.get(part.topic_id, 0) + sum(p.bytes for p in parts if p.topic_id == part.topic_id)
            ((held,),) = self._db.execute("SELECT sum(bytes) FROM partitions WHERE topic = ?", (part.topic_id,))
            if held + added > quota:
                raise QuotaExceeded(
                    f'topic "{part.topic.name}" holds {size_text(held)} of its quota of {size_text(quota)}',
                    fix="shorten its retention, raise the quota (headrace topic alter), or append less",
                )

    def _advance(self, mark: Mark) -> bool:
        row = self._db.execute("SELECT epoch, last FROM writers WHERE name = ?", (mark.writer,)).fetchone()
        if row is None or row[0] != mark.epoch:
            raise WriterFenced(
                f'writer "{mark.writer}" was opened by another process', fix="stop this one; only one may write"
            )
        if row[1] is not None and mark.number <= row[1]:
            return False
        self._db.execute("UPDATE writers SET last = ? WHERE name = ?", (mark.number, mark.writer))
        return True

    def _place(self, part: Part) -> Appended:
        key = (part.topic_id, part.partition)
        if key not in self._ends:
            (self._ends[key],) = self._db.execute(
                "SELECT end_offset FROM partitions WHERE topic = ? AND partition = ?", key
            ).fetchone()
        offset = self._ends[key]
        self._ends[key] += part.count
        self._added[part.topic_id] = self._added.get(part.topic_id, 0) + part.bytes
        if part.extent and key in self._pending:
            self._write(*key, self._pending.pop(key))
        if part.extent:
            self._insert(part.topic_id, part.partition, part.extent)
        else:
            self._pending.setdefault(key, []).append(part)
        return Appended(part.topic.name, part.partition, offset, part.count)

    def _write(self, topic_id: int, partition: int, parts: list[Part]) -> None:
        for extent in self._encode([part.rows for part in parts if part.rows is not None]):
            self._insert(topic_id, partition, extent)

    def _encode(self, batches: list[pa.RecordBatch]) -> list[Extent]:
        if len(batches) == 1:
            return [self._encoder.stage(batches[0])]
        joined = pa.concat_tables([pa.Table.from_batches([b]) for b in batches], promote_options="default")
        return [self._encoder.stage(joined.combine_chunks())]

    def _reached(self) -> int:
        if self._sequence is None:
            ((self._sequence,),) = self._db.execute("SELECT value FROM meta WHERE name = 'sequence'")
        return self._sequence or 0

    def _insert(self, topic_id: int, partition: int, extent: Extent) -> None:
        reached = self._reached()
        first, self._sequence = reached + 1, reached + extent.rows
        ((end,),) = self._db.execute(
            "UPDATE partitions SET end_offset = end_offset + ?, last_sequence = ?, bytes = bytes + ? "
            "WHERE topic = ? AND partition = ? RETURNING end_offset",
            (extent.rows, self._sequence, extent.bytes, topic_id, partition),
        ).fetchall()
        self._db.execute(
            "INSERT INTO extents (topic, partition, base_offset, last_offset, base_sequence, last_sequence, rows, "
            "min_time, max_time, bytes, kind, merged, checksum, created_at, file, payload) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)",
            (
                topic_id,
                partition,
                end - extent.rows,
                end - 1,
                first,
                self._sequence,
                extent.rows,
                extent.min_time,
                extent.max_time,
                extent.bytes,
                FILE if extent.file else INLINE,
                extent.checksum,
                self._now,
                extent.file,
                extent.payload,
            ),
        )
