"""A queue over a topic: workers take messages, and acknowledge them, reject them or let them time out.

Built on the `Log` contract alone. A claim is an event in the queue's journal; the journal's order decides who won, so
workers need no other coordination and no threads. What a crash may repeat: a message that was taken and not
acknowledged is delivered again after its visibility timeout, at most `max_deliveries` times; then it goes to the
dead-letter topic, once. Queues with different names on one topic are independent.
"""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headrace.clock import Clock, SystemClock, millis
from headrace.contracts import Batch, Bounds, Log, dead_letter_topic
from headrace.errors import BadOption, OffsetOutOfRange, UnknownReceipt
from headrace.log.queues.dead_letters import DeadLetterWriter
from headrace.log.queues.journal import Journal
from headrace.log.queues.state import MessageId
from headrace.record import StoredRecord

_NAME = re.compile(r"[A-Za-z0-9_-]+")  # no dots, so that the journal's name can be split into topic and queue
_RECEIPT = re.compile(r"([0-9a-f]{32})\.(\d{1,9})\.(\d{1,19})")
_POLL = 0.02
_COUNTED = 64


@dataclass(frozen=True)
class Delivery:
    """A message claimed by a worker until `expires_at`. `rows` is the message's row with the log's columns."""

    receipt: str
    rows: Batch
    deliveries: int
    expires_at: int

    @property
    def record(self) -> StoredRecord:
        """The message of a raw topic."""
        return next(self.rows.records())

    @property
    def row(self) -> dict[str, Any]:
        """The message of a typed topic, by column."""
        return self.rows.rows.to_pylist()[0]


@dataclass(frozen=True)
class QueueStats:
    """Numbers of messages: available, in flight (or to be dead-lettered), done, dead, and lost to retention.

    On Kafka `lost` is an upper bound: retention removes offsets, and some of them were transaction markers.
    """

    ready: int
    in_flight: int
    done: int
    dead: int
    lost: int


class Queue:
    """One worker's handle on a queue. Not thread-safe: each worker creates its own."""

    def __init__(
        self,
        log: Log,
        topic: str,
        name: str,
        *,
        visibility: timedelta = timedelta(seconds=30),
        max_deliveries: int = 5,
        clock: Clock | None = None,
        owner: str | None = None,
        dead_letters: str | None = None,
        snapshot_every: int = 1_000,
    ) -> None:
        _check(name, visibility, max_deliveries)
        log.topic(topic)
        self.topic = topic
        self.name = name
        self.owner = owner or f"worker-{uuid.uuid4().hex[:8]}"
        self._log = log
        self._visibility = visibility
        self._max_deliveries = max_deliveries
        self._turn = 0
        self.journal = Journal(log, f"__queue.{topic}.{name}", clock or SystemClock(), snapshot_every)
        self._dead_letters = DeadLetterWriter(log, topic, name, self.journal, dead_letters or dead_letter_topic(topic))
        if self.journal.is_new:
            self.journal.append("open", starts=[[p, b.start] for p, b in log.bounds(topic).items()])

    # -- take -------------------------------------------------------------------------------------------------------

    def take(self, max_messages: int = 1, timeout: timedelta = timedelta(0)) -> list[Delivery]:
        """Up to so many messages, each for this worker alone; none if nothing arrived within the wall-clock timeout."""
        deadline = time.monotonic() + timeout.total_seconds()
        while True:
            deliveries = self._take(max_messages)
            remaining = deadline - time.monotonic()
            if deliveries or remaining <= 0:
                return deliveries
            time.sleep(min(_POLL, remaining))

    def _take(self, max_messages: int) -> list[Delivery]:
        self.journal.sync()
        self._dead_letters.write_expired()
        while True:
            try:
                messages = self._find(max_messages)
            except _Removed:
                continue
            if not messages:
                return []
            won, claim = self._claim(list(messages))
            if won:
                return [self._delivery(item, claim, messages[item]) for item in won]

    def _claim(self, items: list[MessageId]) -> tuple[list[MessageId], str]:
        claim = uuid.uuid4().hex
        self.journal.append(
            "claim",
            id=claim,
            owner=self.owner,
            items=items,
            hold=millis(self._visibility),
            limit=self._max_deliveries,
        )
        in_flight = self.journal.state.held
        return [item for item in items if item in in_flight and in_flight[item].claim == claim], claim

    def _delivery(self, item: MessageId, claim: str, rows: Batch) -> Delivery:
        in_flight = self.journal.state.held[item]
        return Delivery(f"{claim}.{item.partition}.{item.offset}", rows, in_flight.deliveries, in_flight.until)

    def _find(self, count: int) -> dict[MessageId, Batch]:
        """Messages that can be claimed now, with their rows: redeliveries first, then new ones."""
        bounds = self._log.bounds(self.topic)
        self._count_lost(bounds)
        messages: dict[MessageId, Batch] = {}
        for item in self.journal.state.ready(self.journal.now())[:count]:
            row = self._dead_letters.row(item)
            if row is None:
                self.journal.append("lost", starts=[], items=[item])
                raise _Removed
            messages[item] = row
        self._turn += 1
        for i in range(len(bounds)):
            partition = (self._turn + i) % len(bounds)
            if len(messages) < count:
                messages |= self._new(partition, bounds[partition], count - len(messages))
        return messages

    def _new(self, partition: int, bounds: Bounds, count: int) -> dict[MessageId, Batch]:
        offset = self._next(partition)
        if offset > bounds.end:
            raise OffsetOutOfRange(
                f'queue "{self.name}" is at offset {offset}, but the partition ends at {bounds.end}',
                where=f"{self.topic}/{partition}",
                fix=f"the topic was created again: use another queue name, or delete topic {self.journal.topic}",
            )
        if offset == bounds.end:
            return {}
        try:
            batch = self._log.read(self.topic, partition, offset, max_records=count)
        except OffsetOutOfRange:
            raise _Removed from None
        offsets = batch.rows.column("$offset").to_pylist()
        return {
            MessageId(partition, o): Batch(self.topic, partition, batch.rows.slice(i, 1), o + 1)
            for i, o in enumerate(offsets)
        }

    def _next(self, partition: int) -> int:
        return self.journal.state.next.get(partition, 0)

    def _count_lost(self, bounds: dict[int, Bounds]) -> None:
        waiting = self.journal.state.ready(self.journal.now())
        lossy = {p for p, b in bounds.items() if b.start > self._next(p)}
        lossy |= {i.partition for i in waiting if i.offset < bounds[i.partition].start}
        if lossy:
            self.journal.append("lost", starts=[[p, bounds[p].start] for p in sorted(lossy)], items=[])

    # -- acknowledge ------------------------------------------------------------------------------------------------

    def ack(self, *receipts: str) -> None:
        """Finish the messages: they are never delivered again."""
        self._finish("ack", receipts)

    def reject(self, *receipts: str, requeue: bool = True) -> None:
        """Reject the messages: they are redelivered at once, or go to the dead-letter topic."""
        self._finish("reject", receipts, requeue=requeue)
        self._dead_letters.write_expired()

    def extend(self, receipt: str, by: timedelta) -> int:
        """Extend the claim on a message until `by` from now; returns the new expiry."""
        self._finish("extend", (receipt,), hold=millis(by))
        _, item = _parsed(receipt)
        return self.journal.state.held[item].until

    def _finish(self, event: str, receipts: tuple[str, ...], **fields: Any) -> None:
        claims = {receipt: _parsed(receipt) for receipt in receipts}
        self.journal.sync()
        owned = [(item, claim) for claim, item in claims.values() if self.journal.state.holds(item, claim)]
        done = self.journal.append(event, items=[[*item, claim] for item, claim in owned], **fields) if owned else []
        if done is None:
            done = [i for i, claim in owned if self.journal.state.holds(i, claim) == (event == "extend")]
        for receipt, (_, item) in claims.items():
            if item not in done:
                raise _unknown(receipt)

    def stats(self) -> QueueStats:
        self.journal.sync()
        state, now = self.journal.state, self.journal.now()
        bounds = self._log.bounds(self.topic)
        ready = len(state.ready(now))
        new = sum(self._count(p, max(b.start, self._next(p)), b.end) for p, b in bounds.items())
        removed = sum(max(0, b.start - self._next(p)) for p, b in bounds.items())
        return QueueStats(ready + new, len(state.held) - ready, state.done, state.dead, state.lost + removed)

    def _count(self, partition: int, start: int, end: int) -> int:
        """Rows between two offsets; a small number is exact, a large one may include gaps."""
        if end - start > _COUNTED:
            return end - start
        rows = 0
        while start < end:
            try:
                batch = self._log.read(self.topic, partition, start, max_records=end - start)
            except OffsetOutOfRange:  # removed meanwhile
                break
            rows += len(batch)
            start = batch.next_offset
        return rows


class _Removed(Exception):
    """Retention removed a row while it was being read."""


def _check(name: str, visibility: timedelta, max_deliveries: int) -> None:
    if not _NAME.fullmatch(name):
        raise BadOption(f'"{name}" is not a valid queue name', fix="use letters, digits, dashes and underscores")
    if visibility < timedelta(milliseconds=1) or max_deliveries < 1:
        raise BadOption("visibility and max_deliveries must be greater than zero", fix="for example 30 seconds and 5")


def _parsed(receipt: str) -> tuple[str, MessageId]:
    match = _RECEIPT.fullmatch(receipt)
    if match is None:
        raise _unknown(receipt)
    return match.group(1), MessageId(int(match.group(2)), int(match.group(3)))


def _unknown(receipt: str) -> UnknownReceipt:
    return UnknownReceipt(
        f'receipt "{receipt[:80]}" is not valid',
        fix="it was acknowledged, or it expired and the message was delivered again; extend it during long work",
    )
