"""Group commit: appends of many threads go into one transaction, and one sync serves them all.

Callers prepare and encode large rows themselves, on their own threads; the committer places what is ready: it gives
offsets and sequences, inserts the extents and moves writers' numbers, all in one transaction. While it syncs, the
next group gathers. A request that cannot be done fails alone.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import astuple, dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from headrace.contracts import Ack, Appended, Topic
from headrace.errors import Closed, HeadraceError, QuotaExceeded, WriterFenced
from headrace.log.embedded.extents import FILE, INLINE, Extent, Writer
from headrace.log.embedded.mailbox import DONE, POSTED, REFUSED, Mailbox, Post
from headrace.log.embedded.store import Store, busy
from headrace.log.topics import unknown
from headrace.settings import size_text

_MOST = 4096  # requests in one group
_PATIENCE = 0.02  # seconds after which one looks whether the leader is still alive


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


class Committer:
    """All writing of this process. A thread that appends commits itself if it is alone, else it waits in company."""

    def __init__(
        self, store: Store, encoder: Writer, mailbox: Mailbox, now: Callable[[], int], timeout: timedelta
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._mailbox = mailbox
        self._now = now
        self._timeout = timeout.total_seconds()
        self._pending: deque[Request] = deque()
        self._busy = threading.Lock()
        self._call = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="headrace-commit", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Future[Any]:
        """Queue a request; its future gives the list of `Appended` (None: the writer's number was there before)."""
        if self._closed:
            raise Closed("the log is closed", fix="open it again")
        self._pending.append(request)
        self._call.set()
        return request.future

    def run(self, request: Request) -> Any:
        """Commit a request, together with all that is queued, and wait for it.

        `LogBusy` when the write lock was not to be had; then nothing was written.
        """
        if self._closed:
            raise Closed("the log is closed", fix="open it again")
        self._pending.append(request)
        if self._busy.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._busy.release()
            if self._pending:
                self._call.set()  # others came meanwhile: they are the thread's
        try:
            return request.future.result(self._timeout)
        except FutureTimeout:
            if not request.future.cancel():
                return request.future.result()
            raise busy(self._store.folder, self._timeout) from None

    def change(self, change: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run a change of the catalog in a transaction of its own and wait until it is on the disk."""
        return self.run(Request(change=change))

    def close(self) -> None:
        """Finish what is queued, then stop."""
        self._closed = True
        self._call.set()
        self._thread.join()

    def _serve(self) -> None:
        while not (self._closed and not self._pending):
            self._call.wait()
            self._call.clear()
            while self._pending:
                with self._busy:
                    if self._pending and self._pending[0].linger:
                        time.sleep(self._pending[0].linger)
                    self._drain()

    def _drain(self) -> None:
        group: list[Request] = []
        with contextlib.suppress(IndexError):
            while len(group) < _MOST:
                group.append(self._pending.popleft())
        for _, run in itertools.groupby(group, key=lambda r: id(r) if r.change else 0):
            self._try(list(run))

    def _try(self, run: list[Request]) -> None:
        """Commit appends together, a change of the catalog alone; a failure reaches everybody who waits."""
        try:
            self._commit(run)
        except BaseException as error:
            for request in run:
                if not request.future.done():
                    request.future.set_exception(error)

    def _commit(self, group: list[Request]) -> None:
        encoded = _encode(group, self._encoder)  # before the lock is asked for: others need not wait for it
        if all(request.change is None and request.mark is None for request in group):
            offsets = self._by_mail(group, encoded)
            if offsets is not None:
                self._resolve(group, offsets)
                return
        self._lead(group, encoded, [])

    # -- through the mailbox ------------------------------------------------------------------------------------------

    def _by_mail(self, group: list[Request], encoded: dict[Place, list[Extent]]) -> dict[Place, int] | None:
        """Let the leading process commit for us, or lead and commit for others; None if we must do it alone."""
        if self._mailbox.turn.take():
            self._lead(group, encoded, self._mailbox.collect(), elected=True)
            return {}
        names = {(p.topic_id, p.partition): (p.topic.name, p.version) for r in group for p in r.parts}
        if any(part.topic.spec.quota_bytes for request in group for part in request.parts):
            return None
        posted = [(*names[place], *place, *astuple(extent)) for place, extents in encoded.items() for extent in extents]
        number = self._mailbox.post(posted)
        if number is None:
            return None
        return self._await(group, encoded, number)

    def _await(self, group: list[Request], encoded: dict[Place, list[Extent]], number: int) -> dict[Place, int] | None:
        places = list(encoded)
        patience = time.monotonic() + _PATIENCE
        while True:
            state = self._mailbox.state
            if state in (DONE, REFUSED):
                offsets = self._mailbox.reply()
                return None if offsets is None else dict(zip(places, offsets, strict=True))
            # A post that was taken is about to be answered, unless its leader died.
            if (state == POSTED or time.monotonic() > patience) and self._mailbox.turn.take():
                offsets = self._mailbox.recover(self._store.query, number)
                if offsets is None:
                    self._lead(group, encoded, self._mailbox.collect(), elected=True)
                    return {}
                self._mailbox.step_down()
                self._store.sync()
                return dict(zip(places, offsets, strict=True))
            self._mailbox.wait(state, _PATIENCE)

    def _resolve(self, group: list[Request], offsets: dict[Place, int]) -> None:
        """Tell the waiters where a leader in another process put their rows."""
        for request in group:
            if request.future.done():
                continue
            appended: list[Appended] = []
            for part in request.parts:
                place = (part.topic_id, part.partition)
                appended.append(Appended(part.topic.name, part.partition, offsets[place], part.count))
                offsets[place] += part.count
            if request.future.set_running_or_notify_cancel():
                request.future.set_result(appended)

    # -- under the lock -----------------------------------------------------------------------------------------------

    def _lead(
        self, group: list[Request], encoded: dict[Place, list[Extent]], posts: list[Post], *, elected: bool = False
    ) -> None:
        try:
            with self._store.transaction(self._timeout) as db:
                placing = _Placing(db, self._now())
                done = self._place(group, encoded, placing)
                answers = [(post, self._deliver(post, placing)) for post in posts]
                sequence = placing.finish()
        except BaseException:
            self._answer(((post, None) for post in posts), elected)
            raise
        try:
            self._store.bell.page.committed = max(self._store.bell.page.committed, sequence)
            self._settle(done, sequence, bool(posts))
        except BaseException:
            # Committed, perhaps not on the disk: the posters find out by themselves.
            self._answer((), elected)
            raise
        self._answer(answers, elected)

    def _answer(self, answers: Iterable[tuple[Post, list[int] | None]], elected: bool) -> None:
        try:
            for post, offsets in answers:
                self._mailbox.answer(post, offsets)
        finally:
            if elected:
                self._mailbox.step_down()

    def _place(
        self, group: list[Request], encoded: dict[Place, list[Extent]], placing: _Placing
    ) -> list[tuple[Request, Any]]:
        done: list[tuple[Request, Any]] = []
        for request in group:
            if not request.future.set_running_or_notify_cancel():
                continue
            try:
                done.append((request, request.change(placing.db) if request.change else placing.take(request)))
            except (HeadraceError, Stale) as error:
                if request.change:
                    raise  # it may have written already: roll back
                request.future.set_exception(error)
        placed = [request for request, result in done if result is not None]
        placing.insert(encoded if len(placed) == len(group) else _encode(placed, self._encoder))
        return done

    def _deliver(self, post: Post, placing: _Placing) -> list[int] | None:
        offsets = placing.deliver(post)
        if offsets is not None:
            self._mailbox.remember(placing.db, post, offsets)
        return offsets

    def _settle(self, done: list[tuple[Request, Any]], sequence: int, for_others: bool) -> None:
        changed = any(request.change for request, _ in done)
        if changed:
            self._store.bell.page.catalog = (self._store.bell.page.catalog + 1) & 0xFFFFFFFF
        if changed or for_others or any(request.ack is Ack.ALL for request, _ in done):
            self._store.sync(None if changed else sequence)
        self._store.bell.ring()
        for request, result in done:
            request.future.set_result(result)


Place = tuple[int, int]  # topic id and partition


def _encode(requests: Sequence[Request], encoder: Writer) -> dict[Place, list[Extent]]:
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


class _Placing:
    """One transaction's checks and placements."""

    def __init__(self, db: sqlite3.Connection, now: int) -> None:
        self.db = db
        self._now = now
        self._ends: dict[Place, int] = {}
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

    def deliver(self, post: Post) -> list[int] | None:
        """Place another process's rows; returns the first offset in each of its places, None to refuse them."""
        if any(self._current(name) != (topic_id, version) for name, version, topic_id, *_ in post.parts):
            return None
        offsets: dict[Place, int] = {}
        for _, _, topic_id, partition, *fields in post.parts:
            offset = self._insert((topic_id, partition), Extent(*fields))
            offsets.setdefault((topic_id, partition), offset)
        return list(offsets.values())

    def finish(self) -> int:
        """Store the sequence that is reached, and return it."""
        if self._sequence is None:
            return 0
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
        if place not in self._ends:
            (self._ends[place],) = self.db.execute(
                "SELECT end_offset FROM partitions WHERE topic = ? AND partition = ?", place
            ).fetchone()
        offset = self._ends[place]
        self._ends[place] += part.count
        self._added[part.topic_id] = self._added.get(part.topic_id, 0) + part.bytes
        return Appended(part.topic.name, part.partition, offset, part.count)

    def _insert(self, place: Place, extent: Extent) -> int:
        if self._sequence is None:
            ((self._sequence,),) = self.db.execute("SELECT value FROM meta WHERE name = 'sequence'")
        first, self._sequence = (self._sequence or 0) + 1, (self._sequence or 0) + extent.rows
        ((end,),) = self.db.execute(
            "UPDATE partitions SET end_offset = end_offset + ?, last_sequence = ?, bytes = bytes + ? "
            "WHERE topic = ? AND partition = ? RETURNING end_offset",
            (extent.rows, self._sequence, extent.bytes, *place),
        ).fetchall()
        ranges = (end - extent.rows, end - 1, first, self._sequence)
        insert_extent(self.db, place, ranges, extent, FILE if extent.file else INLINE, 0, self._now)
        return end - extent.rows


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
