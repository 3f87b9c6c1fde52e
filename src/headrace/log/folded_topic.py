"""State folded from the records of an internal topic, which several processes read and change.

    users = FoldedTopic(log, "__users", dict, latest_by_key(parse))
    users.append([Record(value, b"alice")])         # without reading: the fold decides what the change does
    users.change(lambda state: ([record], result))  # decided on the state: no other change happens in between
    users.read(lambda state: state.get("alice"))    # after everything that was acknowledged before

The topic has one partition, and all processes fold its records in the same order, so they agree. A process always
reads its own changes. A topic grows unless it is compacted by key or has snapshots. A snapshot is the state before
offset `upto`. Once it is in the topic, the records below `upto` are removed; those that others appended between `upto`
and the snapshot stay and are folded on top of it. So a snapshot is correct whatever others append meanwhile, a crash
before the removal costs only space, and of two concurrent snapshots either may remain.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.contracts import Append, Appended, Bounds, Log, TopicSpec
from headrace.errors import LogBusy, OffsetLost, OffsetOutOfRange, UnknownTopic
from headrace.log.shared_writer import SharedWriter
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record, StoredRecord
from headrace.watched_lock import WatchedLock

S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")
_PAGE = 5_000
_PATIENCE = 20.0  # seconds until an acknowledged record must be readable
_POLL = 0.005


def topic_bounds(log: Log, topic: str) -> Bounds:
    """The bounds of a topic with one partition; a topic that does not exist yet is empty."""
    try:
        return log.bounds(topic)[0]
    except UnknownTopic:
        return Bounds(0, 0)


def read_records(log: Log, topic: str, offset: int = 0, page: int = _PAGE) -> Iterator[StoredRecord]:
    """The records of a topic with one partition up to its current end; removed ones are skipped."""
    start, end = topic_bounds(log, topic)
    offset = max(offset, start)
    while offset < end:
        batch = log.read(topic, 0, offset, max_records=page)
        yield from batch.records()
        if batch.next_offset <= offset:
            return
        offset = batch.next_offset


def latest_by_key(parse: Callable[[str, bytes], V]) -> Callable[[dict[str, V], StoredRecord], dict[str, V]]:
    """A fold that keeps the latest value of each key; a record without a value deletes its key."""

    def fold(state: dict[str, V], record: StoredRecord) -> dict[str, V]:
        key = (record.key or b"").decode()
        if record.value is None:
            state.pop(key, None)
        else:
            state[key] = parse(key, record.value)
        return state

    return fold


@dataclass(frozen=True)
class Snapshots(Generic[S]):
    """How a state becomes a record and back. `load` returns None for a record that is not a snapshot."""

    dump: Callable[[S, int], Record]
    load: Callable[[StoredRecord], tuple[S, int] | None]


class FoldedTopic(Generic[S]):
    """Thread-safe. The first append creates the topic; reading does not."""

    def __init__(
        self,
        log: Log,
        topic: str,
        initial: Callable[[], S],
        fold: Callable[[S, StoredRecord], S],
        spec: TopicSpec | None = None,
        *,
        writer: str | None = None,
        snapshots: Snapshots[S] | None = None,
    ) -> None:
        self.topic = topic
        self._log = log
        self._initial = initial
        self._fold = fold
        self._spec = spec
        self._snapshots = snapshots
        self._writer = SharedWriter(log, writer or topic)
        self._lock = WatchedLock("internal topic")
        self._is_ensured = False
        self._written = 0
        """One after the last offset that this process appended."""
        self.position = 0
        """The offset to read next."""
        self.state = initial()
        """As of the last read. If the fold changes it in place, other threads use it within `read` only."""

    def ensure(self) -> None:
        """Create the topic unless it exists."""
        if not self._is_ensured:
            ensure_topic(self._log, self.topic, self._spec)
            self._is_ensured = True

    # -- read -------------------------------------------------------------------------------------------------------

    def read(self, use: Callable[[S], T]) -> T:
        """Fold everything that was appended since, and use the state while no other thread changes it."""
        with self._lock:
            self.refresh()
            return use(self.state)

    def refresh(self) -> None:
        """Fold everything that was appended since, at least what this process appended."""
        with self._lock:
            until = time.monotonic() + _PATIENCE
            self._follow()
            while self.position < self._written:
                if time.monotonic() > until:
                    raise LogBusy("the last change is not readable yet", where=self.topic, fix="try again")
                time.sleep(_POLL)  # acknowledged, but not visible yet: another transaction before it is open
                self._follow()

    def _follow(self) -> None:
        with contextlib.suppress(UnknownTopic):
            while (bounds := self._log.bounds(self.topic)[0]).end != self.position:
                with contextlib.suppress(OffsetOutOfRange):  # removed meanwhile: the next bounds tell
                    if not bounds.start <= self.position <= bounds.end:
                        self._restore(bounds)
                    elif not self._take_page():
                        return

    def _take_page(self) -> bool:
        before = self.position
        batch = self._log.read(self.topic, 0, before, max_records=_PAGE)
        for record in batch.records():
            self.state = self._fold(self.state, record)
            self.position = record.offset + 1
        self.position = batch.next_offset
        return self.position > before

    # -- change -----------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> int:
        """Append changes, durably; returns the offset of the first."""
        with self._lock:
            self.ensure()
            return self._record_appended(self._log.append([Append(self.topic, from_records(records), 0)]))

    def change(
        self, decide: Callable[[S], tuple[Sequence[Record], T]], also: Sequence[Append] = ()
    ) -> tuple[T, list[Appended]]:
        """Append the records that `decide` returns for the current state, and `also` in the same transaction.

        Returns the second part of the decision, and where `also` was appended. Without records nothing is appended.
        `decide` is called again if another process has changed the topic meanwhile, so it has no side effects.
        """
        with self._lock:
            self.ensure()
            results: list[T] = []

            def prepare(_: int) -> Sequence[Append]:
                self.refresh()
                records, result = decide(self.state)
                results.append(result)
                return [*also, Append(self.topic, from_records(records), 0)] if records else []

            appended = self._writer.append(prepare)
            self._record_appended(appended)
            self.refresh()
            return results[-1], [one for one in appended if one.topic != self.topic]

    def _record_appended(self, appended: Sequence[Appended]) -> int:
        own = [one for one in appended if one.topic == self.topic]
        self._written = max([self._written, *(one.offset + one.count for one in own)])
        return min((one.offset for one in own), default=self._written)

    def close(self) -> None:
        with self._lock:
            self._writer.close()

    # -- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Append a snapshot of the state, then remove the records that it replaces."""
        assert self._snapshots is not None
        with self._lock:
            upto = self.position
            self.append([self._snapshots.dump(self.state, upto)])
            with contextlib.suppress(OffsetOutOfRange):  # another process has already removed more
                self._log.truncate(self.topic, 0, upto)

    def _restore(self, bounds: Bounds) -> None:
        """Start again: from the first snapshot whose later records are all retained, or from the first record."""
        if self.position > bounds.end:  # the topic was deleted and created again
            self._written = 0
        is_cut = bounds.start > 0 and self._snapshots is not None
        self.state, self.position = self._loaded(bounds.start) if is_cut else (self._initial(), bounds.start)

    def _loaded(self, start: int) -> tuple[S, int]:
        assert self._snapshots is not None
        for record in read_records(self._log, self.topic, start):
            if (snapshot := self._snapshots.load(record)) is not None and snapshot[1] >= start:
                return snapshot
        raise OffsetLost(
            f'topic "{self.topic}" begins at offset {start} and has no snapshot',
            where=f"{self.topic}/0",
            fix="remove retention from the topic; delete the topic to start again",
        )
