"""A schema registry in a compacted topic of the log; any number of processes may use it at once.

A change is one atomic append by a named writer of which there is one per log. Opening the writer fences its previous
owner; the topic is read after that, up to the number of the writer's last append, so it shows every earlier change; and
the append fails if yet another process has opened the writer since. Then everything is read and decided again. So two
registries never assign one id twice, and after a crash a change is applied as a whole or not at all. A client without a
response retries: registering a schema twice returns the same id.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from headrace.contracts import Append, Log, TopicSpec, Writer
from headrace.errors import BadRecord, LogBusy, TopicExists, UnknownTopic, WriterFenced
from headrace.faultpoints import reach
from headrace.formats.schema_registry.state import RegistryState, Row
from headrace.formats.schema_registry.store import Decide, StoredRegistry, with_change_number
from headrace.record import Record
from headrace.settings import Size

SCHEMAS_TOPIC = "__schemas"
T = TypeVar("T")
_SPEC = TopicSpec(compact=True, max_record_bytes=Size(8 << 20), tombstone_time=timedelta(days=7))
_PAGE = 5_000
_PATIENCE = 20.0  # seconds to wait for other writers, and for acknowledged records to become visible


class LogRegistry(StoredRegistry):
    """The registry of a log. The first change creates it; reading does not."""

    def __init__(self, log: Log, topic: str = SCHEMAS_TOPIC) -> None:
        super().__init__(LogJournal(log, topic))


class LogJournal:
    """See `store.RegistryJournal`."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._lock = threading.RLock()
        self._state = RegistryState()
        self._position = 0
        self._writer: Writer | None = None

    def read(self, use: Callable[[RegistryState], T]) -> T:
        with self._lock:
            self._sync()
            return use(self._state)

    def change(self, decide: Decide[T]) -> T:
        with self._lock:
            until = time.monotonic() + _PATIENCE
            for attempt in itertools.count(1):
                began = time.monotonic()
                with contextlib.suppress(WriterFenced):
                    return self._try(decide)
                now = time.monotonic()
                if now > until:
                    break
                # Random pause: two equally fast processes would fence each other forever.
                time.sleep(random.uniform(0, min((now - began) * 2**attempt, 1.0)))
        raise LogBusy("other schema registries change the same log all the time", where=self._topic, fix="try again")

    def _try(self, decide: Decide[T]) -> T:
        writer = self._writer = self._writer or self._open()
        self._catch_up(writer)
        rows, result = decide(self._state)
        rows = with_change_number(rows, self._state)
        if rows:
            reach("schemas.decided")
            self._append(writer, rows)
            reach("schemas.appended")
            self._sync()
        return result

    def _append(self, writer: Writer, rows: list[Row]) -> None:
        try:
            appended = writer.append(self._state.number + 1, [Append(self._topic, [_record(row) for row in rows])])
            if appended is None:
                raise WriterFenced("the schemas were changed by another", where=self._topic)
        except BaseException:
            # Whether it was written may be unknown: only opening the writer again can tell.
            self._writer = None
            writer.close()
            raise

    def _open(self) -> Writer:
        self._ensure_topic()
        return self._log.writer(self._topic)

    def _catch_up(self, writer: Writer) -> None:
        """Read all changes that were made with the writer."""
        until = time.monotonic() + _PATIENCE
        self._sync()
        while self._state.number < (writer.last or 0):
            if time.monotonic() > until:
                raise LogBusy("the last change of the schemas is not readable yet", where=self._topic, fix="try again")
            time.sleep(0.005)  # acknowledged, but not visible yet: another transaction before it is open
            self._sync()

    def _ensure_topic(self) -> None:
        try:
            self._log.topic(self._topic)
        except UnknownTopic:
            with contextlib.suppress(TopicExists):
                self._log.create_topic(self._topic, _SPEC)

    def _sync(self) -> None:
        """Read to the end of the topic; a missing topic is empty."""
        try:
            end = self._log.bounds(self._topic)[0].end
        except UnknownTopic:
            return
        while self._position < end:
            batch = self._log.read(self._topic, 0, self._position, max_records=_PAGE)
            for record in batch.records():
                self._state.apply(_row(record.record, f"{self._topic}/0/{record.offset}"))
            if batch.next_offset == self._position:
                return
            self._position = batch.next_offset


def _record(row: Row) -> Record:
    key, value = row
    return Record(None if value is None else json.dumps(value).encode(), json.dumps(key).encode())


def _row(record: Record, where: str) -> Row:
    try:
        key = tuple(json.loads(record.key or b""))
        if not hasattr(RegistryState, f"_apply_{key[0]}"):
            raise ValueError(f"there is no {key[0]!r}")
        return key, None if record.value is None else json.loads(record.value)
    except (ValueError, TypeError, IndexError) as error:
        raise BadRecord(
            "a row of the schemas cannot be read", where=where, fix="write to it through a registry only"
        ) from error
