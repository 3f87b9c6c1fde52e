"""The embedded log: SQLite as the commit log, Arrow as the storage, no server to start.

This is where its parts are joined; each of them has a module of its own beside this one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

from headrace.clock import Clock, SystemClock
from headrace.component import Component, Option, register
from headrace.contracts import (
    Ack,
    Append,
    Appended,
    Batch,
    Bounds,
    GroupInfo,
    Lost,
    Subscription,
    Topic,
    TopicPartition,
    TopicSpec,
)
from headrace.errors import Closed
from headrace.log.embedded import order
from headrace.log.embedded.catalog import Catalog, Changes
from headrace.log.embedded.committer import Committer, Part, Request, Stale
from headrace.log.embedded.consumer import EmbeddedConsumer
from headrace.log.embedded.extents import Extent, Writer
from headrace.log.embedded.groups import Groups
from headrace.log.embedded.mailbox import Mailbox
from headrace.log.embedded.owners import Owner
from headrace.log.embedded.reading import Reader
from headrace.log.embedded.store import Store
from headrace.log.embedded.upkeep import Upkeep, truncate
from headrace.log.embedded.writers import EmbeddedProducer, EmbeddedWriter
from headrace.log.rows import prepare, split
from headrace.settings import Settings


class EmbeddedLog:
    """`Log` and `Ordered` on a data folder. Any number of processes may open the same folder."""

    def __init__(self, folder: Path | str, settings: Settings | None = None, clock: Clock | None = None) -> None:
        self.folder = Path(folder)
        self.settings = settings or Settings()
        self.clock: Clock = clock or SystemClock()
        self._pid = os.getpid()
        self.store = Store(self.folder)
        self._owner = Owner(self.folder / "owners")
        self.encoder = Writer(self.folder / "extents", self._owner.id, self.settings.inline_bytes)
        self._mailbox = Mailbox(self.folder, self._owner.id)
        self.committer = Committer(self.store, self.encoder, self._mailbox, self.clock.now, self.settings.lock_timeout)
        self.catalog = Catalog(self.store)
        self._changes = Changes(self.catalog, self.committer)
        self.reader = Reader(self.store)
        self._groups = Groups(self.folder, self.clock, self.settings.group_session)
        self.upkeep = Upkeep(self)
        self._closed = False

    def __enter__(self) -> EmbeddedLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- topics -----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, spec: TopicSpec = TopicSpec()) -> Topic:  # noqa: B008 - frozen
        return self._open._changes.create(name, spec, self.clock.now())

    def alter_topic(self, name: str, **changes: Any) -> Topic:
        return self._open._changes.alter(name, changes)

    def delete_topic(self, name: str) -> None:
        self._open._changes.delete(name, self.clock.now())

    def topic(self, name: str) -> Topic:
        return self._open.catalog.entry(name).topic

    def topics(self) -> list[Topic]:
        return [entry.topic for entry in self._open.catalog.entries().values()]

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append], *, ack: Ack = Ack.ALL) -> list[Appended]:
        """All of it or nothing; returns where the rows went."""
        return self.commit(appends, lambda parts: Request(parts, ack))

    def commit(self, appends: Sequence[Append], request_of: Any) -> Any:
        """Prepare appends, commit them as one request, and begin again should a topic have changed meanwhile."""
        while True:
            parts = self._parts(appends)
            request: Request = request_of(parts)
            if request.ack is Ack.NONE:
                self.committer.submit(request)
                return []
            try:
                return self.committer.run(request)
            except Stale:
                self._discard(parts)
                self.catalog.refresh()
            except BaseException:
                self._discard(parts)
                raise

    def submit(self, append: Append, ack: Ack, linger: float = 0.0) -> Future[Any]:
        """Queue one append without waiting for it."""
        return self.committer.submit(Request(self._parts([append]), ack, linger=linger))

    def _parts(self, appends: Sequence[Append]) -> list[Part]:
        parts: list[Part] = []
        now = self.clock.now()
        for append in appends:
            entry = self._open.catalog.entry(append.topic)
            rows = prepare(append.rows, entry.topic, now)
            for partition, piece in split(rows, entry.topic, append.partition):
                size = piece.nbytes
                if size > self.settings.inline_bytes:
                    parts.append(self.place(append.topic, partition, self.encoder.stage(piece)))
                else:
                    parts.append(
                        Part(entry.topic, entry.id, entry.version, partition, piece.num_rows, size, rows=piece)
                    )
        return parts

    def _discard(self, parts: Sequence[Part]) -> None:
        """Remove the files of an append that failed, unless the commit log names them after all."""
        for part in parts:
            if part.extent and part.extent.file:
                with contextlib.suppress(OSError):
                    if not self.store.query("SELECT 1 FROM extents WHERE file = ?", part.extent.file):
                        (self.folder / "extents" / part.extent.file).unlink(missing_ok=True)

    def producer(self, *, ack: Ack = Ack.ALL, linger: timedelta | None = None) -> EmbeddedProducer:
        return EmbeddedProducer(self._open, ack, self.settings.linger if linger is None else linger)

    def writer(self, name: str) -> EmbeddedWriter:
        return EmbeddedWriter(self._open, name)

    @property
    def owner(self) -> str:
        """Id under which other processes may write files that this one will commit."""
        return self._owner.id

    def place(self, topic: str, partition: int, extent: Extent) -> Part:
        """A part made of rows that another process encoded for us."""
        entry = self._open.catalog.entry(topic)
        return Part(entry.topic, entry.id, entry.version, partition, extent.rows, extent.bytes, extent=extent)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, topic: str, partition: int, offset: int, *, max_records: int = 10_000) -> Batch:
        return self.reader.read(self._open.catalog.entry(topic), partition, offset, max_records)

    def bounds(self, topic: str) -> dict[int, Bounds]:
        return self.reader.bounds(self._open.catalog.entry(topic))

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        return self.reader.offset_at(self._open.catalog.entry(topic), partition, timestamp)

    def truncate(self, topic: str, partition: int, before: int) -> None:
        truncate(self._open, self.catalog.entry(topic), partition, before)

    def wait(self, seen: int, timeout: timedelta) -> int:
        """Sleep until something was committed since `seen` (a count of rings), or the time is over."""
        return self.store.bell.wait(seen, timeout.total_seconds())

    # -- one order over all topics ------------------------------------------------------------------------------------

    def head(self, topics: Iterable[str]) -> int:
        return order.head(self._open, topics)

    def floor(self, topics: Iterable[str]) -> int:
        return order.floor(self._open, topics)

    def cut(self, topics: Iterable[str], after: int, max_rows: int) -> int:
        return order.cut(self._open, topics, after, max_rows)

    def scan(self, topics: Iterable[str], after: int, upto: int) -> Iterator[Batch]:
        for name in topics:
            entry = self._open.catalog.entry(name)
            for partition in range(entry.topic.partitions):
                yield from self.reader.scan(entry, partition, after, upto)

    # -- groups -----------------------------------------------------------------------------------------------------

    def consumer(
        self,
        group: str,
        subscription: Subscription,
        *,
        start: str = "earliest",
        lost: Lost = Lost.ERROR,
        client: str = "",
    ) -> EmbeddedConsumer:
        return EmbeddedConsumer(self._open, self._groups, group, subscription, start, lost, client)

    def groups(self) -> list[str]:
        return self._groups.names()

    def group(self, name: str) -> GroupInfo:
        entries = self._open.catalog.entries()
        return self._groups.info(name, {n: (e.id, self.reader.bounds(e)) for n, e in entries.items()})

    def reset_group(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        ids = {partition.topic: self._open.catalog.entry(partition.topic).id for partition in offsets}
        for (topic, partition), offset in offsets.items():
            self.reader.check_offset(self.catalog.entry(topic), partition, offset)
        self._groups.reset(name, offsets, ids)

    def delete_group(self, name: str) -> None:
        self._groups.delete(name)

    # -- end --------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def _open(self) -> EmbeddedLog:
        if self._closed:
            raise Closed(f'log "{self.folder}" is closed', fix="open it again")
        if os.getpid() != self._pid:
            raise Closed(f'log "{self.folder}" was opened before this process was forked', fix="open it after the fork")
        return self

    def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self.upkeep.close()
        self._groups.close()
        self.committer.close()
        self._mailbox.close()
        self.store.close()
        self._owner.close()


register(
    Component(
        "log",
        "embedded",
        "A folder on this machine: no server, Arrow storage, one total order over all topics.",
        EmbeddedLog,
        (Option("folder", Path, "The data folder."),),
    )
)
