"""The embedded log: SQLite as the commit log, Arrow as the storage format, no server.

This module joins the parts; each part is a module of a sub-package.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

from headrace.clock import Clock, SystemClock
from headrace.component import Component, Option, register
from headrace.contracts import (
    INTERNAL_PREFIX,
    Ack,
    Append,
    Appended,
    Batch,
    Bounds,
    GroupInfo,
    OffsetReset,
    Subscription,
    Topic,
    TopicPartition,
    TopicSpec,
    WriterNote,
)
from headrace.errors import Closed
from headrace.log.embedded.commit.appender import Appender
from headrace.log.embedded.commit.committer import Committer
from headrace.log.embedded.commit.mailbox import Mailbox
from headrace.log.embedded.commit.placement import Request
from headrace.log.embedded.commit.topic_changes import TopicChanges
from headrace.log.embedded.commit.writers import EmbeddedProducer, EmbeddedWriter, writer_notes
from headrace.log.embedded.groups.consumer import EmbeddedConsumer
from headrace.log.embedded.groups.store import GroupStore
from headrace.log.embedded.ipc.owners import Owner
from headrace.log.embedded.maintenance.tasks import Maintenance, truncate
from headrace.log.embedded.storage import total_order
from headrace.log.embedded.storage.extent_reader import ExtentReader
from headrace.log.embedded.storage.extents import ExtentEncoder
from headrace.log.embedded.storage.store import Store, translate_errors
from headrace.log.embedded.storage.topic_catalog import TopicCatalog
from headrace.settings import Settings

_logger = logging.getLogger(__name__)


class EmbeddedLog:
    """`Log` and `Ordered` on a data folder. Any number of processes may open the same folder."""

    def __init__(self, folder: Path | str, settings: Settings | None = None, clock: Clock | None = None) -> None:
        self.folder = Path(folder)
        self.settings = settings or Settings()
        self.clock: Clock = clock or SystemClock()
        self._pid = os.getpid()
        self.store = Store(self.folder)
        with translate_errors(self.folder):
            self._owner = Owner(self.folder / "owners")
            self._mailbox = Mailbox(self.folder, self._owner.id)
        self.encoder = ExtentEncoder(self.folder / "extents", self._owner.id, self.settings.storage.inline_bytes)
        self.committer = Committer(
            self.store, self.encoder, self._mailbox, self.clock.now, self.settings.storage.lock_timeout
        )
        self.catalog = TopicCatalog(self.store)
        self._changes = TopicChanges(self.catalog, self.committer)
        self.appender = Appender(self.store, self.catalog, self.committer, self.encoder, self._now)
        self.reader = ExtentReader(self.store)
        self._groups = GroupStore(self.folder, self.clock, self.settings.storage.group_session_timeout)
        self.maintenance = Maintenance(self)
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
        entries = self._open.catalog.entries()
        return [entry.topic for name, entry in entries.items() if not name.startswith(INTERNAL_PREFIX)]

    # -- writing ----------------------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append], *, ack: Ack = Ack.ALL) -> list[Appended]:
        """Atomic; returns where the rows went."""
        if ack is Ack.NONE:
            self.appender.submit(appends, ack).add_done_callback(_log_failure)
            return []
        return self.appender.commit(lambda: self.appender.parts(appends), lambda parts: Request(parts, ack))

    def producer(self, *, ack: Ack = Ack.ALL, linger: timedelta | None = None) -> EmbeddedProducer:
        return EmbeddedProducer(self._open.appender, ack, self.settings.storage.linger if linger is None else linger)

    def writer(self, name: str) -> EmbeddedWriter:
        return EmbeddedWriter(self._open.appender, name)

    def writer_notes(self) -> list[WriterNote]:
        """What the writers have stored with their last appends."""
        return writer_notes(self._open.store)

    def forget_note(self, writer: str) -> None:
        """Delete a writer's note."""
        self.committer.change(lambda db: db.execute("DELETE FROM writer_notes WHERE name = ?", (writer,)).rowcount)

    @property
    def owner(self) -> str:
        """Id under which other processes may write files that this process will commit."""
        return self._owner.id

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
        """Sleep until a commit happened since `seen` (a commit count), or until the timeout."""
        return self.store.commit_signal.wait(seen, timeout.total_seconds())

    # -- total order over all topics ----------------------------------------------------------------------------------

    def head(self, topics: Iterable[str]) -> int:
        return total_order.head(self._open, topics)

    def end(self) -> int:
        """The last sequence that any row ever had."""
        ((sequence,),) = self._open.store.query("SELECT value FROM meta WHERE name = 'sequence'")
        return sequence

    def removed(self, topics: Iterable[str]) -> int:
        return total_order.removed(self._open, topics)

    def cut(self, topics: Iterable[str], after: int, max_rows: int) -> int:
        return total_order.cut(self._open, topics, after, max_rows)

    def lag(self, topics: Iterable[str], after: int) -> int:
        return total_order.lag(self._open, topics, after)

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
        lost: OffsetReset = OffsetReset.ERROR,
        client: str = "",
    ) -> EmbeddedConsumer:
        return EmbeddedConsumer(self._open, self._groups, group, subscription, start, lost, client)

    def groups(self) -> list[str]:
        return self._open._groups.names()

    def group(self, name: str) -> GroupInfo:
        ids = {topic: entry.id for topic, entry in self._open.catalog.entries().items()}
        return self._groups.info(name, ids, self.reader.end)

    def reset_group(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        ids = {partition.topic: self._open.catalog.entry(partition.topic).id for partition in offsets}
        for (topic, partition), offset in offsets.items():
            self.reader.check_offset(self.catalog.entry(topic), partition, offset)
        self._groups.reset(name, offsets, ids)

    def delete_group(self, name: str) -> None:
        self._open._groups.delete(name)

    # -- close ------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it was closed, or was opened before this process was forked."""
        return self._closed or os.getpid() != self._pid

    def _now(self) -> int:
        return self._open.clock.now()

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
        self.maintenance.close()
        self._groups.close()
        self.committer.close()
        self._mailbox.close()
        self.store.close()
        self._owner.close()


def _log_failure(done: Future[list[Appended]]) -> None:
    """No caller waits for an append without acknowledgement, so a failure goes to the log file."""
    if done.exception() is not None:
        _logger.error("an append without acknowledgement failed: %s", done.exception())


register(
    Component(
        "log",
        "embedded",
        "A folder on this machine: no server, Arrow storage, one total order over all topics.",
        EmbeddedLog,
        (Option("folder", Path, "The data folder."),),
    )
)
