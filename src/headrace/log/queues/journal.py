"""A queue's journal: a topic of events that every member appends to and replays in order, with snapshots."""

from __future__ import annotations

from typing import Any

import orjson

from headrace.clock import Clock
from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import BadRecord
from headrace.log.folded_topic import FoldedTopic, Snapshots
from headrace.log.queues.state import Event, MessageId, QueueState
from headrace.log.stored_rows import from_records
from headrace.record import Record, StoredRecord
from headrace.settings import Size

_SPEC = TopicSpec(max_record_bytes=Size(64 << 20))  # a snapshot is one record


class Journal:
    """The queue's state as far as this member has read."""

    def __init__(self, log: Log, topic: str, clock: Clock, snapshot_every: int) -> None:
        self.topic = topic
        self._clock = clock
        self._snapshot_every = snapshot_every
        self._since_snapshot = 0
        self._effects: dict[int, list[MessageId] | None] = {}
        snapshots = Snapshots(self._dump, _load)
        self._events = FoldedTopic(log, topic, QueueState, self._fold, _SPEC, snapshots=snapshots)
        self._events.ensure()
        self.sync()

    @property
    def state(self) -> QueueState:
        return self._events.state

    @property
    def is_new(self) -> bool:
        return self._events.position == 0

    def now(self) -> int:
        """The queue's time: never before the last event."""
        return max(self.state.at, self._clock.now())

    def sync(self) -> None:
        """Read to the end of the journal."""
        self._events.refresh()

    def append(self, event: str, **fields: Any) -> list[MessageId] | None:
        """Append an event, replay up to it, and return the messages on which it took effect.

        None if another member's snapshot replaced the event before it was read: then only the state tells.
        """
        offset = self._events.append([self._record(event, **fields)])
        self._effects = {offset: None}
        self.sync()
        effect = self._effects.pop(offset)
        if self._since_snapshot >= self._snapshot_every:
            self.snapshot()
        return effect

    def row(self, event: str, **fields: Any) -> Append:
        """An event as an `Append`, to be appended together with others."""
        return Append(self.topic, from_records([self._record(event, **fields)]))

    def snapshot(self) -> None:
        """Append a snapshot of the state, then remove the events that it replaces."""
        self._events.snapshot()
        self._since_snapshot = 0

    def _record(self, event: str, **fields: Any) -> Record:
        return Record(orjson.dumps({"event": event, "at": self._clock.now(), **fields}, default=list))

    def _dump(self, state: QueueState, upto: int) -> Record:
        return self._record("snapshot", upto=upto, state=state.dump())

    def _fold(self, state: QueueState, record: StoredRecord) -> QueueState:
        event = _event(record)
        self._since_snapshot = 0 if event["event"] == "snapshot" else self._since_snapshot + 1
        effect = state.apply(event)
        if record.offset in self._effects:
            self._effects[record.offset] = effect
        return state


def _load(record: StoredRecord) -> tuple[QueueState, int] | None:
    event = _event(record)
    return (QueueState.load(event["state"]), event["upto"]) if event["event"] == "snapshot" else None


def _event(record: StoredRecord) -> Event:
    try:
        event = orjson.loads(record.value or b"")
        event["event"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        where = f"{record.topic}/0/{record.offset}"
        raise BadRecord(
            "an event in a queue's journal cannot be decoded", where=where, fix="do not write to the journal topic"
        ) from error
    return event
