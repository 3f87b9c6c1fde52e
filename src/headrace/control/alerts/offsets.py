"""Stores a notifier's offset and the outcomes of its messages, with one writer at a time.

    store = DeliveryOffsetStore(log, "OPS")
    store.flush()
    store.store(offset, outcomes)      # in one append
    store.check_ownership()         # raises if fenced

Both topics are written in one append: `OFFSETS_TOPIC` has, by notifier, its offset and the messages that it plans to
send; `OUTCOMES_TOPIC` has the outcome of each message. The writer has the notifier's name: opening it fences the
previous writer, which gets the error at its next append. An append that failed is retried before any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.contracts import Append, Log, TopicSpec, Writer
from headrace.control.alerts.history import OFFSETS_TOPIC, OUTCOMES_TOPIC, DeliveryOutcome
from headrace.control.statements.sink_topic import ALERT_RETENTION_BYTES
from headrace.errors import Closed, HeadraceError, WriterFenced
from headrace.log.folded_topic import read_records
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record


@dataclass(frozen=True)
class PlannedMessage:
    """A message that is about to be sent: its id, its alert, and the offsets and ids of its notices."""

    id: str
    alert: str
    offsets: tuple[int, ...]
    notices: tuple[str, ...]

    def only(self, offsets: Sequence[int]) -> PlannedMessage:
        """The message reduced to these notices, under the same id."""
        selected = [(at, notice) for at, notice in zip(self.offsets, self.notices, strict=True) if at in offsets]
        return replace(self, offsets=tuple(at for at, _ in selected), notices=tuple(notice for _, notice in selected))


@dataclass(frozen=True)
class DeliveryOffset:
    """A notifier's offset: all before `next` is done; up to `upto` the planned messages are left to send."""

    next: int = 0
    upto: int = 0
    planned: tuple[PlannedMessage, ...] = ()

    def with_remaining(self, message: PlannedMessage) -> DeliveryOffset:
        """Replace a planned message by what is left of it; remove it if nothing is left."""
        others = (message if one.id == message.id else one for one in self.planned)
        planned = tuple(one for one in others if one.offsets)
        return replace(self, planned=planned) if planned else DeliveryOffset(self.upto, self.upto)


class DeliveryOffsetStore:
    """The offsets of one notifier. Not thread-safe."""

    def __init__(self, log: Log, notifier: str) -> None:
        self.current = DeliveryOffset()
        self._log = log
        self._notifier = notifier
        self._writer: Writer | None = None
        self._number = -1
        """The number of the last append that is known to be stored."""
        self._pending: tuple[DeliveryOffset, Sequence[DeliveryOutcome]] | None = None
        """An append that may not be stored yet."""
        self._is_owner = False

    def flush(self) -> None:
        """Store a pending append; raises if that is not possible now, and WriterFenced if it never will be."""
        if self._writer is None:
            self._open()
        if self._pending is not None:
            self._append(*self._pending)

    def store(self, offset: DeliveryOffset, outcomes: Sequence[DeliveryOutcome] = ()) -> None:
        self._pending = offset, outcomes
        self.flush()

    def check_ownership(self) -> None:
        """Call before each attempt: raises if another writer has taken over since the last append."""
        if not self._is_owner:
            self.store(self.current)
        self._is_owner = False

    def close(self) -> None:
        if self._writer is not None:
            with suppress(HeadraceError):
                self._writer.close()
        self._writer = None

    def _open(self) -> None:
        """If another writer has appended meanwhile, its state replaces the one in memory."""
        ensure_topic(self._log, OFFSETS_TOPIC, TopicSpec(compact=True))
        ensure_topic(self._log, OUTCOMES_TOPIC, TopicSpec(retention_bytes=ALERT_RETENTION_BYTES))
        writer = self._log.writer(f"notifier-{self._notifier}")
        last = -1 if writer.last is None else writer.last
        if self._pending is not None and last == self._number + 1:  # it was stored, only the acknowledgement was lost
            self.current, self._pending = self._pending[0], None
        elif self._pending is None or last != self._number:
            self.current, self._pending = read_delivery_offsets(self._log).get(self._notifier, DeliveryOffset()), None
        self._number = last
        self._writer = writer

    def _append(self, offset: DeliveryOffset, outcomes: Sequence[DeliveryOutcome]) -> None:
        assert self._writer is not None
        name = self._notifier.encode()
        appends = [Append(OFFSETS_TOPIC, _rows([(name, asdict(offset))]), 0)]
        if outcomes:
            appends.append(Append(OUTCOMES_TOPIC, _rows([(name, asdict(one)) for one in outcomes]), 0))
        try:
            self._writer.append(self._number + 1, appends)
        except (WriterFenced, Closed):
            raise
        except Exception:  # unknown whether it was stored: the reopened writer's last number shows it
            self.close()
            raise
        self._number += 1
        self.current, self._pending, self._is_owner = offset, None, True


def read_delivery_offsets(log: Log) -> dict[str, DeliveryOffset]:
    """The offsets of all notifiers."""
    return {
        (record.key or b"").decode(): delivery_offset_from_dict(json.loads(record.value or b"{}"))
        for record in read_records(log, OFFSETS_TOPIC)
    }


def delivery_offset_from_dict(document: Mapping[str, Any]) -> DeliveryOffset:
    planned = tuple(
        PlannedMessage(one["id"], one["alert"], tuple(one["offsets"]), tuple(one["notices"]))
        for one in document["planned"]
    )
    return DeliveryOffset(document["next"], document["upto"], planned)


def _rows(documents: Sequence[tuple[bytes, Mapping[str, Any]]]) -> Any:
    return from_records([Record(json.dumps(document).encode(), key) for key, document in documents])
