"""Producers, which send record by record, and named writers, whose appends happen exactly once."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.contracts import Ack, Append, Appended
from headrace.errors import Closed
from headrace.log.embedded.committer import Mark, Part, Request, Stale
from headrace.log.embedded.extents import Extent
from headrace.log.rows import from_records
from headrace.record import Record

if TYPE_CHECKING:
    from headrace.log.embedded.log import EmbeddedLog

_IN_FLIGHT = 10_000


class EmbeddedProducer:
    """Sends records; those sent within `linger` of each other share a commit. Never more than 10,000 are under way."""

    def __init__(self, log: EmbeddedLog, ack: Ack, linger: timedelta) -> None:
        self._log = log
        self._ack = ack
        self._linger = linger.total_seconds()
        self._room = threading.BoundedSemaphore(_IN_FLIGHT)
        self._pending: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def send(self, topic: str, record: Record, partition: int | None = None) -> Future[Appended]:
        """Queue a record; the future gives its place once it is acknowledged as asked for."""
        if self._closed:
            raise Closed("the producer is closed", fix="make a new one")
        append = Append(topic, from_records([record]), partition)
        self._room.acquire()
        outer: Future[Appended] = Future()
        try:
            inner = self._log.submit(append, self._ack, self._linger)
        except BaseException:
            self._room.release()
            raise
        with self._lock:
            self._pending.add(outer)
        inner.add_done_callback(lambda done: self._finish(append, done, outer))
        if self._ack is Ack.NONE:
            nowhere: Future[Appended] = Future()
            nowhere.set_result(Appended(topic, -1 if partition is None else partition, -1, 1))
            return nowhere
        return outer

    def _finish(self, append: Append, inner: Future[Any], outer: Future[Appended]) -> None:
        error = inner.exception()
        if isinstance(error, Stale):
            # Runs on the committer's thread, so it only queues again, and never waits.
            try:
                again = self._log.submit(append, self._ack, self._linger)
            except BaseException as refused:
                error = refused
            else:
                again.add_done_callback(lambda done: self._finish(append, done, outer))
                return
        self._room.release()
        with self._lock:
            self._pending.discard(outer)
        if error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result()[0])

    def flush(self, timeout: timedelta | None = None) -> None:
        """Wait until all that was sent is acknowledged; the first failure is raised."""
        deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        with self._lock:
            waiting = list(self._pending)
        for future in waiting:
            future.result(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        self._closed = True
        self.flush()


class EmbeddedWriter:
    """A named writer: opening it raises its epoch, so an older holder of the name is fenced."""

    def __init__(self, log: EmbeddedLog, name: str) -> None:
        self.name = name
        self._log = log
        self._epoch, self._last = log.committer.change(self._take_over)

    def _take_over(self, db: sqlite3.Connection) -> tuple[int, int | None]:
        db.execute(
            "INSERT INTO writers VALUES (?, 1, NULL) ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1", (self.name,)
        )
        return db.execute("SELECT epoch, last FROM writers WHERE name = ?", (self.name,)).fetchone()

    @property
    def last(self) -> int | None:
        """The highest number that is in the log."""
        return self._last

    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        """Append once under a number; None if that number, or a higher one, is there already."""
        if self._last is not None and number <= self._last:
            return None
        result = self._log.commit(appends, lambda parts: self._request(number, parts))
        self._last = number
        return result

    def append_staged(self, number: int, staged: Sequence[tuple[str, int, Extent]]) -> list[Appended] | None:
        """Append once what other processes have encoded already: (topic, partition, extent) each."""
        while True:
            parts = [self._log.place(topic, partition, extent) for topic, partition, extent in staged]
            try:
                result = self._log.committer.run(self._request(number, parts))
            except Stale:  # a topic was altered; rows of its older schema are still good
                self._log.catalog.refresh()
                continue
            self._last = number if self._last is None else max(number, self._last)
            return result

    def _request(self, number: int, parts: Sequence[Part]) -> Request:
        return Request(parts, Ack.ALL, Mark(self.name, self._epoch, number))

    def close(self) -> None:
        """Nothing to give back: the name stays ours until somebody else opens it."""
