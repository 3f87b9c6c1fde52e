"""Producers, which send single records, and named writers, whose appends happen exactly once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from datetime import timedelta

from headrace.contracts import Ack, Append, Appended, WriterNote
from headrace.errors import Closed, LogBusy
from headrace.log.embedded.commit.appender import Appender
from headrace.log.embedded.commit.placement import Part, Request, WriterMark
from headrace.log.embedded.storage.extents import EncodedExtent
from headrace.log.embedded.storage.store import Store
from headrace.record import Record

_IN_FLIGHT = 10_000


class EmbeddedProducer:
    """Sends records; those sent within `linger` of each other share a commit. At most 10,000 are in flight."""

    def __init__(self, appender: Appender, ack: Ack, linger: timedelta) -> None:
        self._appender = appender
        self._ack = ack
        self._linger = linger.total_seconds()
        self._free_slots = threading.BoundedSemaphore(_IN_FLIGHT)
        self._pending: set[Future[Appended]] = set()
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._closed = False

    def send(self, topic: str, record: Record, partition: int | None = None) -> Future[Appended]:
        """Queue a record; the future returns its position once it is acknowledged as requested."""
        if self._closed:
            raise Closed("the producer is closed", fix="create a new one")
        append = Append(topic, (record,), partition)
        self._free_slots.acquire()
        outer: Future[Appended] = Future()
        try:
            inner = self._appender.submit([append], self._ack, self._linger)
        except BaseException:
            self._free_slots.release()
            raise
        with self._lock:
            self._pending.add(outer)
        outer.set_running_or_notify_cancel()  # in flight: it can no longer be cancelled
        inner.add_done_callback(lambda done: self._finish(done, outer))
        if self._ack is Ack.NONE:
            nowhere: Future[Appended] = Future()
            nowhere.set_result(Appended(topic, -1 if partition is None else partition, -1, 1))
            return nowhere
        return outer

    def _finish(self, inner: Future[list[Appended]], outer: Future[Appended]) -> None:
        error = inner.exception()
        self._free_slots.release()
        with self._lock:
            self._pending.discard(outer)
            self._failure = self._failure or error
        if error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result()[0])

    def flush(self, timeout: timedelta | None = None) -> None:
        """Wait until everything sent is acknowledged; raises the first failure since the last flush."""
        with self._lock:
            waiting = list(self._pending)
        _, late = wait(waiting, None if timeout is None else timeout.total_seconds())
        if late:
            raise LogBusy(f"{len(late)} records were not acknowledged in time", fix="flush again")
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.flush()


class EmbeddedWriter:
    """A named writer: opening it raises its epoch, which fences the previous owner of the name."""

    def __init__(self, appender: Appender, name: str) -> None:
        self.name = name
        self._appender = appender
        self._epoch, self._last = appender.change(self._take_over)

    def _take_over(self, db: sqlite3.Connection) -> tuple[int, int | None]:
        db.execute(
            "INSERT INTO writers VALUES (?, 1, NULL) ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1", (self.name,)
        )
        return db.execute("SELECT epoch, last FROM writers WHERE name = ?", (self.name,)).fetchone()

    @property
    def last(self) -> int | None:
        """The writer's highest number in the log."""
        return self._last

    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        """Append once under a number; None if the log already has that number or a higher one."""
        return self._once(number, lambda: self._appender.parts(appends))

    def append_staged(
        self, number: int, staged: Sequence[tuple[str, int, EncodedExtent]], note: str | None = None
    ) -> list[Appended] | None:
        """Append once what other processes have encoded: (topic, partition, extent) each; `note` is kept with it."""
        return self._once(number, lambda: [self._appender.place(*item) for item in staged], note)

    def _once(self, number: int, prepare: Callable[[], list[Part]], note: str | None = None) -> list[Appended] | None:
        # Also sent when the number is known to be in the log: this is how a fenced writer finds out.
        mark = WriterMark(self.name, self._epoch, number, note)
        result = self._appender.commit(prepare, lambda parts: Request(parts, Ack.ALL, mark))
        self._last = number if self._last is None else max(number, self._last)
        return result

    def close(self) -> None:
        """Releases nothing: the name stays owned until another process opens it."""


def writer_notes(store: Store) -> list[WriterNote]:
    """The notes of all writers that have left one."""
    rows = store.query("SELECT name, last, note FROM writer_notes JOIN writers USING (name) WHERE last IS NOT NULL")
    return [WriterNote(*row) for row in rows]


def last_number(store: Store, name: str) -> int | None:
    """A writer's highest number, read without fencing its owner."""
    rows = store.query("SELECT last FROM writers WHERE name = ?", name)
    return rows[0][0] if rows else None
