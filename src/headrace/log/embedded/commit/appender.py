"""Prepares appends and commits them; starts over if a topic changes meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from headrace.contracts import Ack, Append, Appended
from headrace.log.embedded.commit.committer import Committer
from headrace.log.embedded.commit.placement import Part, Request, StaleTopic
from headrace.log.embedded.storage.extents import EncodedExtent, ExtentEncoder
from headrace.log.embedded.storage.store import Store, remove_unnamed
from headrace.log.embedded.storage.topic_catalog import TopicCatalog, TopicEntry
from headrace.log.row_sizes import record_size
from headrace.log.stored_rows import prepare_rows, single_partition, split_by_partition


class Appender:
    """Turns appends into parts, and parts into commits. `now` raises if the log is closed."""

    def __init__(
        self,
        store: Store,
        catalog: TopicCatalog,
        committer: Committer,
        encoder: ExtentEncoder,
        now: Callable[[], int],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._committer = committer
        self._encoder = encoder
        self._now = now

    def change(self, change: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run a change of the commit log in its own transaction."""
        return self._committer.change(change)

    def commit(self, prepare: Callable[[], list[Part]], request: Callable[[list[Part]], Request]) -> Any:
        """Prepare parts and commit them as one request; starts over if a topic changed meanwhile."""
        prepared: list[Part] = []
        try:
            while True:
                parts = prepare()
                prepared += parts
                try:
                    return self._committer.run(request(parts))
                except StaleTopic:
                    self._catalog.refresh()
        finally:
            self.discard(prepared)  # files that the commit log does not reference: failed, prepared again, or a repeat

    def submit(self, appends: Sequence[Append], ack: Ack, linger: float = 0.0) -> Future[list[Appended]]:
        """Queue an append without waiting for it; it is prepared again if a topic changes meanwhile."""
        answer: Future[list[Appended]] = Future()
        self._queue(appends, ack, linger, answer)
        return answer

    def _queue(self, appends: Sequence[Append], ack: Ack, linger: float, answer: Future[list[Appended]]) -> None:
        parts = self.parts(appends)

        def finish(done: Future[Any]) -> None:
            # Runs on the committer's thread, so it only queues again and never waits.
            error = done.exception()
            if error is not None:
                self.discard(parts)
            if isinstance(error, StaleTopic):
                try:
                    self._catalog.refresh()
                    self._queue(appends, ack, linger, answer)
                    return
                except Exception as refused:
                    error = refused
            if error is None:
                answer.set_result(done.result())
            else:
                answer.set_exception(error)

        self._committer.submit(Request(parts, ack, linger=linger)).add_done_callback(finish)

    def parts(self, appends: Sequence[Append]) -> list[Part]:
        """The parts of an append; large ones are on disk already."""
        parts: list[Part] = []
        now = self._now()
        try:
            for append in appends:
                entry = self._catalog.entry(append.topic)
                bare = self._bare(entry, append)
                if bare is not None:
                    parts.append(bare)
                    continue
                rows = prepare_rows(append.rows, entry.topic, now)
                for partition, piece in split_by_partition(rows, entry.topic, append.partition):
                    parts.append(self._part(entry, partition, piece))
        except BaseException:
            self.discard(parts)
            raise
        return parts

    def _bare(self, entry: TopicEntry, append: Append) -> Part | None:
        """A single record of a raw topic stays raw; None if it is something else, or needs the full checks."""
        if isinstance(append.rows, pa.RecordBatch) or len(append.rows) != 1 or not entry.topic.schema.is_raw:
            return None
        (record,) = append.rows
        size = record_size(record)
        partition = single_partition(record, entry.topic, append.partition)
        if partition is None or size > min(entry.topic.spec.max_record_bytes, self._encoder.inline_bytes):
            return None
        at = (entry.topic, entry.id, entry.version, partition)
        return Part(*at, 1, size, records=append.rows)

    def _part(self, entry: TopicEntry, partition: int, piece: pa.RecordBatch) -> Part:
        at = (entry.topic, entry.id, entry.version, partition, piece.num_rows)
        size = piece.nbytes
        if size <= self._encoder.inline_bytes:
            return Part(*at, size, rows=piece)
        extent = self._encoder.stage(piece)
        return Part(*at, extent.bytes, extent=extent)

    def discard(self, parts: Sequence[Part]) -> None:
        """Remove the files of an append that failed or was a repeat."""
        for part in parts:
            if part.extent and part.extent.file:
                remove_unnamed(self._store, part.extent.file)

    def place(self, topic: str, partition: int, extent: EncodedExtent) -> Part:
        """A part of rows that another process has encoded."""
        entry = self._catalog.entry(topic)
        return Part(entry.topic, entry.id, entry.version, partition, extent.rows, extent.bytes, extent=extent)
