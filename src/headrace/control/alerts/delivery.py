"""Delivers alert notices: each notifier follows the notice topic in its own thread, so a slow one delays no other.

Before sending, a notifier stores its plan (see `offsets`): which notices form a message, and its id. After a crash the
same message is sent again under the same id, unless its outcome was stored, which happens in the append that advances
the offset. So delivery is at least once, and exactly once unless a crash falls between the receiver's response and that
append. If the log does not accept an append, it is retried, and nothing is sent before it succeeds.

Before each attempt the notifier checks that the alert still exists and is not muted, and that this server is still the
sender: of two servers on one log, the one that started last is.

A failed message is retried with exponential back-off until the notifier's `patience` is over, and then recorded as
dead, with the reason. Later messages wait meanwhile.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.backoff import Backoff
from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.alerts.history import DeliveryOutcome, NoticeAtOffset, read_notices
from headrace.control.alerts.offsets import DeliveryOffset, DeliveryOffsetStore, PlannedMessage
from headrace.errors import DeliveryRefused, HeadraceError, NotDelivered, Retry, WriterFenced
from headrace.faultpoints import reach
from headrace.log.folded_topic import topic_bounds
from headrace.log.follow_loop import FollowLoop
from headrace.notifiers.contract import Message, Notice, PartlyDelivered, RetryLater, Sender, SenderContext
from headrace.notifiers.registry import make_sender
from headrace.plan.alerts import TOPIC
from headrace.plan.catalog import Catalog
from headrace.plan.notifiers import Notifier
from headrace.secrets import redact

DELIVERED, DEAD, MUTED, DROPPED, LOST = "sent", "dead", "muted", "dropped", "lost"
_REMOVED = "it was removed from the topic before it was sent"
_MAX_NOTICES_PER_PASS = 1_000  # in one pass
_MAX_NOTICES_PER_MESSAGE = 100  # in one message
_READ_INTERVAL = 0.1  # seconds between two reads: the log signals appends to any topic
_IDLE_WAIT = 5.0  # seconds
_BACKOFF = Backoff(1.0, 60.0, jitter=0.5)  # between two attempts, unless the receiver asks for more
_MAX_RETRY_AFTER = 300.0
_MAX_OBSERVATIONS = 100  # observations of the topic's end that are remembered
_MAX_REASON_LENGTH = 500  # characters
_logger = logging.getLogger(__name__)


@dataclass
class DeliveryAttempts:
    """Delivery attempts of one message: their number, and when to give up."""

    message: str = ""
    deadline: float = 0.0
    count: int = 0


class NotifierThread:
    """Runs one notifier in its own thread, after `predecessor` has finished.

    `skip_reason` returns why a notice must not be sent now, or None.
    """

    def __init__(
        self,
        log: Log,
        notifier: Notifier,
        sender: Sender,
        clock: Clock,
        skip_reason: Callable[[Notice], str | None],
        predecessor: NotifierThread | None = None,
    ) -> None:
        self.notifier = notifier
        self._log = log
        self._sender = sender
        self._clock = clock
        self._skip_reason = skip_reason
        self._predecessor = predecessor
        self._offsets = DeliveryOffsetStore(log, notifier.name)
        self._attempts = DeliveryAttempts()
        self._ends: deque[tuple[int, float]] = deque(maxlen=_MAX_OBSERVATIONS)
        """End offsets of the topic and when they were observed: a record does not have its arrival time."""
        name = f"notifier {notifier.name}"
        self._loop = FollowLoop(log, name, self._turn, quiet_seconds=_READ_INTERVAL)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; a message without a stored outcome is sent again later, under its id."""
        self._loop.stop()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        if self._predecessor is not None:  # it is stopping, and may still be sending a message
            self._predecessor.join()
            self._predecessor = None
        self._loop.run()
        self._offsets.close()

    def _turn(self) -> float:
        try:
            return 0.0 if self._step() else _IDLE_WAIT
        except WriterFenced:
            _logger.error(
                "notifier %s: another server delivers its messages now, so this one stops", self.notifier.name
            )
            self._loop.stop()
            return _IDLE_WAIT

    def _step(self) -> bool:
        """Send the next planned message, or plan messages for new notices; False if there is nothing to do."""
        self._offsets.flush()
        offset = self._offsets.current
        if offset.planned:
            self._send_planned(offset, offset.planned[0])
            return True
        own, upto = self._own_notices(offset.next)
        if own:
            if (pause := self._grouping_pause(own[0][0], upto - offset.next)) > 0:
                self._loop.pause(pause)  # wait for more notices, to send them together
                own, upto = self._own_notices(offset.next)
            self._plan(offset, own, upto)
            return True
        self._offsets.current = DeliveryOffset(upto, upto)  # not stored: it can be computed again
        return upto > offset.next

    def _own_notices(self, offset: int) -> tuple[list[NoticeAtOffset], int]:
        notices, upto = read_notices(self._log, offset, _MAX_NOTICES_PER_PASS)
        return [(at, notice) for at, notice in notices if self.notifier.name in notice.notify], upto

    # -- grouping notices into messages -----------------------------------------------------------------------------

    def _grouping_pause(self, first: int, count: int) -> float:
        """Seconds to wait for more notices; 0 or less if there are many, or the first has waited long enough."""
        wait, now = self.notifier.options["wait"].total_seconds(), time.monotonic()
        waited = max((now - seen for end, seen in self._ends if first < end), default=0.0)
        return 0.0 if count >= _MAX_NOTICES_PER_PASS else wait - waited

    def _plan(self, offset: DeliveryOffset, notices: Sequence[NoticeAtOffset], upto: int) -> None:
        groups: dict[str, list[NoticeAtOffset]] = {}
        outcomes: list[DeliveryOutcome] = []
        for at, notice in notices:
            if (state := self._skip_reason(notice)) is None:
                groups.setdefault(notice.query, []).append((at, notice))
            else:
                outcomes.append(self._outcome(notice.id, notice.alert, (notice.id,), state))
        planned = tuple(_planned(self.notifier.name, group) for group in _split(groups.values()))
        self._offsets.store(
            DeliveryOffset(offset.next, upto, planned) if planned else DeliveryOffset(upto, upto), outcomes
        )
        reach("alert-planned")

    # -- one message ------------------------------------------------------------------------------------------------

    def _send_planned(self, offset: DeliveryOffset, planned: PlannedMessage) -> None:
        """Attempt a planned message once, with those of its notices that are still to be sent."""
        notices = self._read_planned(planned)
        skipped = self._skipped(planned, notices)
        if skipped:
            remaining = planned.only([at for at in planned.offsets if at not in skipped])
            self._offsets.store(offset.with_remaining(remaining), list(skipped.values()))
            return
        outcome = self._attempt(Message(planned.id, planned.alert, tuple(notices.values())))
        if outcome is not None:
            reach("alert-sent")
            self._offsets.store(offset.with_remaining(planned.only(())), [outcome])

    def _read_planned(self, planned: PlannedMessage) -> dict[int, Notice]:
        """The message's notices, without removed ones; raises if one exists but cannot be read."""
        first, last = planned.offsets[0], planned.offsets[-1]
        notices = dict(read_notices(self._log, first, last + 1 - first)[0])
        start, end = topic_bounds(self._log, TOPIC)
        self._ends.append((end, time.monotonic()))
        for at in planned.offsets:
            if at not in notices and start <= at < end:
                raise NotDelivered("a notice cannot be read at the moment", where=f"topic {TOPIC}, offset {at}")
        return {at: notices[at] for at in planned.offsets if at in notices}

    def _skipped(self, planned: PlannedMessage, notices: dict[int, Notice]) -> dict[int, DeliveryOutcome]:
        """Outcomes of those notices of the message that must no longer be sent."""
        skipped = {at: self._skip_reason(notices[at]) if at in notices else LOST for at in planned.offsets}
        ids = dict(zip(planned.offsets, planned.notices, strict=True))
        return {
            at: self._outcome(planned.id, planned.alert, (ids[at],), state, reason=_REMOVED if state == LOST else None)
            for at, state in skipped.items()
            if state is not None
        }

    def _attempt(self, message: Message) -> DeliveryOutcome | None:
        """Send a message; returns its outcome, or None if it is to be retried."""
        self._offsets.check_ownership()
        if self._attempts.message != message.id:
            self._attempts = DeliveryAttempts(
                message.id, time.monotonic() + self.notifier.options["patience"].total_seconds()
            )
        self._attempts.count += 1
        try:
            self._sender.send(message)
        except Exception as error:
            return self._failed(message, _as_headrace_error(error))
        return self._outcome(message.id, message.alert, message.ids, DELIVERED, self._attempts.count)

    def _failed(self, message: Message, error: HeadraceError) -> DeliveryOutcome | None:
        pause = _pause(error, self._attempts.count)
        if isinstance(error, Retry) and time.monotonic() + pause <= self._attempts.deadline:
            self._loop.pause(pause)
            return None
        reason = redact(f"{error.code}: {error.what}")[:_MAX_REASON_LENGTH]
        _logger.warning("notifier %s could not deliver message %s: %s", self.notifier.name, message.id, reason)
        state = (
            DELIVERED if isinstance(error, PartlyDelivered) or (isinstance(error, RetryLater) and error.some) else DEAD
        )
        return self._outcome(message.id, message.alert, message.ids, state, self._attempts.count, reason)

    def _outcome(
        self, message: str, alert: str, notices: tuple[str, ...], state: str, tries: int = 0, reason: str | None = None
    ) -> DeliveryOutcome:
        return DeliveryOutcome(self.notifier.name, message, alert, notices, state, self._clock.now(), tries, reason)


def _split(groups: Iterable[Sequence[NoticeAtOffset]]) -> Iterator[Sequence[NoticeAtOffset]]:
    """Split groups so that no message has too many notices."""
    for group in groups:
        yield from (group[at : at + _MAX_NOTICES_PER_MESSAGE] for at in range(0, len(group), _MAX_NOTICES_PER_MESSAGE))


def _planned(notifier: str, group: Sequence[NoticeAtOffset]) -> PlannedMessage:
    """A message of one notice has the notice's id; the id of a longer one is derived from its notices' ids."""
    ids = tuple(notice.id for _, notice in group)
    name = ids[0] if len(ids) == 1 else hashlib.sha256(" ".join((notifier, *ids)).encode()).hexdigest()[:24]
    return PlannedMessage(name, group[0][1].alert, tuple(at for at, _ in group), ids)


def _as_headrace_error(error: Exception) -> HeadraceError:
    """An unexpected error is not retried: it would block all later messages."""
    if isinstance(error, HeadraceError):
        return error
    _logger.error("a notifier failed", exc_info=error)
    return DeliveryRefused(f"the notifier failed: {type(error).__name__}", fix="see the server's log file")


def _pause(error: HeadraceError, tries: int) -> float:
    requested = error.seconds if isinstance(error, RetryLater) else None
    usual = _BACKOFF.pause(tries)
    return usual if requested is None else min(max(requested, usual), _MAX_RETRY_AFTER)


# -- all notifiers --------------------------------------------------------------------------------------------------


class AlertDelivery:
    """One thread per notifier, reconciled with the catalog after every statement. `is_muted` checks each notice."""

    def __init__(self, log: Log, context: SenderContext, clock: Clock, is_muted: Callable[[Notice], bool]) -> None:
        self._log = log
        self._context = context
        self._clock = clock
        self._is_muted = is_muted
        self._queries: frozenset[str] = frozenset()
        self._threads: dict[str, NotifierThread] = {}
        self._stopping_threads: dict[str, NotifierThread] = {}
        """Threads of dropped notifiers, which may still be sending a message."""
        self._subscribed: frozenset[str] | None = None
        """Names of the notifiers when push subscriptions without a notifier were last removed."""

    def reconcile(self, catalog: Catalog) -> None:
        self._queries = frozenset(query.id for query in catalog.alerts.values())
        for name, thread in list(self._threads.items()):
            if catalog.notifiers.get(name) != thread.notifier:
                thread.stop()
                self._stopping_threads[name] = self._threads.pop(name)
        for name, notifier in catalog.notifiers.items():
            if name not in self._threads:
                self._threads[name] = self._start(notifier)
        self._stopping_threads = {name: thread for name, thread in self._stopping_threads.items() if thread.is_alive}
        if self._subscribed != frozenset(catalog.notifiers):
            self._context.subscriptions.keep(catalog.notifiers)
            self._subscribed = frozenset(catalog.notifiers)

    def _start(self, notifier: Notifier) -> NotifierThread:
        predecessor = self._stopping_threads.pop(notifier.name, None)
        sender = make_sender(notifier, self._context)
        return NotifierThread(self._log, notifier, sender, self._clock, self._skip_reason, predecessor)

    def _skip_reason(self, notice: Notice) -> str | None:
        if notice.query not in self._queries:
            return DROPPED
        return MUTED if self._is_muted(notice) else None

    def close(self) -> None:
        """Stop all threads, and wait a while for them; a message without a stored outcome is sent again."""
        threads = [*self._threads.values(), *self._stopping_threads.values()]
        for thread in threads:
            thread.stop()
        deadline = time.monotonic() + _IDLE_WAIT
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))


def send_test_message(notifier: Notifier, context: SenderContext, clock: Clock) -> None:
    """Send a test message; raises if it is not delivered."""
    now = clock.now()
    text = "this is a test message"
    notice = Notice(f"test-{now}", "TEST", "", notifier.name, "raised", "info", text, None, now, now)
    try:
        make_sender(notifier, context).send(Message(notice.id, notice.alert, (notice,)))
    except HeadraceError as error:
        error.what = redact(error.what)
        raise
