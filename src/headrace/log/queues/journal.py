"""A queue's journal: a topic of events that every member appends to and replays in order.

Snapshots keep the journal short. A snapshot is the state before offset `upto`; once it is in the journal, everything
below `upto` may be removed. Events that others appended between `upto` and the snapshot stay and are applied on top of
it, so a snapshot is correct whatever others wrote meanwhile. A crash before the rows are removed costs only their space
until the next snapshot, and of two concurrent snapshots either may remain.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import orjson

from headrace.clock import Clock
from headrace.contracts import Append, Bounds, Log, TopicSpec
from headrace.errors import BadRecord, OffsetLost, OffsetOutOfRange
from headrace.log.queues.state import Event, MessageId, QueueState
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record
from headrace.settings import Size

_MOST_SNAPSHOT = Size(64 << 20)
_PAGE = 5_000


class Journal:
    """The queue's state as far as this member has read."""

    def __init__(self, log: Log, topic: str, clock: Clock, snapshot_every: int) -> None:
        self.topic = topic
        self.state = QueueState()
        self._log = log
        self._clock = clock
        self._snapshot_every = snapshot_every
        self._position = 0
        self._since_snapshot = 0
        self._effects: dict[int, list[MessageId] | None] = {}
        ensure_topic(log, topic, TopicSpec(max_record_bytes=_MOST_SNAPSHOT))
        self.sync()

    @property
    def is_new(self) -> bool:
        return self._position == 0

    def now(self) -> int:
        """The queue's time: never before the last event."""
        return max(self.state.at, self._clock.now())

    def append(self, event: str, **fields: Any) -> list[MessageId] | None:
        """Append an event, replay up to it, and return the messages on which it took effect.

        None if another member's snapshot replaced the event before it was read: then only the state tells.
        """
        (appended,) = self._log.append([self.row(event, **fields)])
        effect = self._fold_to(appended.offset)
        if self._since_snapshot >= self._snapshot_every:
            self.snapshot()
        return effect

    def row(self, event: str, **fields: Any) -> Append:
        """An event as an `Append`, to be appended together with others."""
        record = Record(orjson.dumps({"event": event, "at": self._clock.now(), **fields}, default=list))
        return Append(self.topic, from_records([record]))

    def _fold_to(self, offset: int) -> list[MessageId] | None:
        self._effects = {offset: None}
        while True:
            self.sync()
            if self._position > offset:
                return self._effects.pop(offset)
            time.sleep(0.005)  # acknowledged, but not visible yet: another transaction before it is open

    def sync(self) -> None:
        """Read to the end of the journal."""
        while self._position != self._bounds().end:
            try:
                batch = self._log.read(self.topic, 0, self._position, max_records=_PAGE)
            except OffsetOutOfRange:
                self._restart()
                continue
            for record in batch.records():
                self._fold(record.offset, _event(record.value, f"{self.topic}/0/{record.offset}"))
            if batch.next_offset == self._position:
                return
            self._position = batch.next_offset

    def _fold(self, offset: int, event: Event) -> None:
        self._since_snapshot = 0 if event["event"] == "snapshot" else self._since_snapshot + 1
        effect = self.state.apply(event)
        if offset in self._effects:
            self._effects[offset] = effect

    def _bounds(self) -> Bounds:
        return self._log.bounds(self.topic)[0]

    # -- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Append a snapshot of the state, then remove the events that it replaces."""
        upto = self._position
        self._log.append([self.row("snapshot", upto=upto, state=self.state.dump())])
        self._since_snapshot = 0
        with contextlib.suppress(OffsetOutOfRange):  # another member has already removed more
            self._log.truncate(self.topic, 0, upto)

    def _restart(self) -> None:
        """Restart from the first snapshot whose events are all retained."""
        while True:
            start = self._bounds().start
            if start == 0:
                self.state, self._position = QueueState(), 0
                return
            with contextlib.suppress(OffsetOutOfRange):  # removed meanwhile: try again
                self._load(start)
                return

    def _load(self, start: int) -> None:
        for event in self._events(start):
            if event["event"] == "snapshot" and event["upto"] >= start:
                self.state, self._position = QueueState.load(event["state"]), event["upto"]
                return
        raise OffsetLost(
            f'the journal "{self.topic}" begins at offset {start} and has no snapshot',
            where=f"{self.topic}/0",
            fix="remove retention from the journal topic; delete the topic to begin the queue anew",
        )

    def _events(self, offset: int) -> Iterator[Event]:
        while offset < self._bounds().end:
            batch = self._log.read(self.topic, 0, offset, max_records=_PAGE)
            for record in batch.records():
                yield _event(record.value, f"{self.topic}/0/{record.offset}")
            offset = batch.next_offset


def _event(value: bytes | None, where: str) -> Event:
    try:
        event = orjson.loads(value or b"")
        event["event"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise BadRecord(
            "an event of a queue's journal cannot be read", where=where, fix="write to queues only"
        ) from error
    return event
