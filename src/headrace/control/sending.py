"""Notices are sent: each notifier follows their topic by itself, so that a slow one holds up no other.

What it is about to send is noted before (see `marks`): which notices go together, and under which id. After a crash the
same is sent again under the same id, unless its outcome was noted, which happens in the append that moves the mark on.
So a message goes out at least once, and once if nothing dies between the other side's answer and that append. What
cannot be noted now is kept, and nothing is sent until it is.

Before each try it is asked whether the alert is still there and not muted, and whether this is still the one who sends:
of two servers on one log, the one that began last is.

A message that does not get through is tried again after pauses that grow, for as long as the notifier is patient, and
then noted as dead, with the reason. Those behind it wait meanwhile.
"""

from __future__ import annotations

import hashlib
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.marks import Mark, Notes, Planned
from headrace.control.notices import Outcome, Placed, bounds_of, notices_from
from headrace.deliver.contract import Later, Means, Message, Notice, Partly, Sender
from headrace.deliver.senders import sender
from headrace.errors import Closed, DeliveryRefused, HeadraceError, NotDelivered, Retry, WriterFenced
from headrace.faultpoints import reach
from headrace.log.news import News
from headrace.plan.alerts import TOPIC
from headrace.plan.catalog import Catalog
from headrace.plan.notifiers import Notifier
from headrace.secrets import masked

DELIVERED, DEAD, MUTED, DROPPED, LOST = "sent", "dead", "muted", "dropped", "lost"
_REMOVED = "it was removed from the topic before it was sent"
_MOST = 1_000  # notices in one pass
_TOGETHER = 100  # notices in one message
_LOOK = 0.1  # seconds between two looks: the log's bell rings for all topics
_PATIENCE = 5.0  # seconds
_LONGEST = 60.0  # seconds between two tries, unless the other side asks for more
_ASKED = 300.0
_LOOKS = 100  # at the topic's end, that are remembered
_LONGEST_REASON = 500  # letters
_logger = logging.getLogger(__name__)


@dataclass
class Tries:
    """Of one message: how many there were, and when it is given up."""

    message: str = ""
    given_up: float = 0.0
    count: int = 0


class Courier:
    """One notifier at work, in a thread of its own, after `before` has left.

    `fate` says why a notice is not sent now, if it is not.
    """

    def __init__(
        self,
        log: Log,
        notifier: Notifier,
        send: Sender,
        clock: Clock,
        fate: Callable[[Notice], str | None],
        before: Courier | None = None,
    ) -> None:
        self.notifier = notifier
        self._log = log
        self._send = send
        self._clock = clock
        self._fate = fate
        self._before = before
        self._notes = Notes(log, notifier.name)
        self._tries = Tries()
        self._ends: deque[tuple[int, float]] = deque(maxlen=_LOOKS)
        """Where the topic ended, and when that was: a record does not tell when it came."""
        self._news = News(log)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"notifier-{notifier.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """What is being sent is sent again later, under its id."""
        self._stopping.set()
        self._news.wake()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        if self._before is not None:  # it is leaving, and may have a message under way
            self._before.join()
            self._before = None
        try:
            while not self._stopping.is_set():
                self._news.look()
                if not self._went_on():
                    self._news.wait(_PATIENCE)
                    self._stopping.wait(_LOOK)
        except Closed:
            return
        except WriterFenced:
            _logger.error("notifier %s: another server sends now, this one no longer does", self.notifier.name)
        finally:
            self._notes.close()

    def _went_on(self) -> bool:
        try:
            return self._step()
        except (Closed, WriterFenced):
            raise
        except Exception as error:  # a full disk, say; what is noted is done then
            known = isinstance(error, HeadraceError)
            _logger.warning("notifier %s waits: %s", self.notifier.name, error, exc_info=not known)
            return False

    def _step(self) -> bool:
        """Go on with what is planned, or plan what there is; False if there is nothing."""
        self._notes.ready()
        mark = self._notes.mark
        if mark.planned:
            self._sent(mark, mark.planned[0])
            return True
        mine, upto = self._mine(mark.next)
        if mine:
            if (pause := self._pause(mine[0][0], upto - mark.next)) > 0:
                self._stopping.wait(pause)  # others may come with it
                mine, upto = self._mine(mark.next)
            self._plan(mark, mine, upto)
            return True
        self._notes.mark = Mark(upto, upto)  # not noted: it is found out again
        return upto > mark.next

    def _mine(self, offset: int) -> tuple[list[Placed], int]:
        found, upto = notices_from(self._log, offset, _MOST)
        return [(at, notice) for at, notice in found if self.notifier.name in notice.notify], upto

    # -- which go together ------------------------------------------------------------------------------------------

    def _pause(self, first: int, count: int) -> float:
        """Seconds that others are waited for; nobody is if there are many, or the first has lain there for so long."""
        wait, now = self.notifier.options["wait"].total_seconds(), time.monotonic()
        lain = max((now - seen for end, seen in self._ends if first < end), default=0.0)
        return 0.0 if count >= _MOST else wait - lain

    def _plan(self, mark: Mark, found: Sequence[Placed], upto: int) -> None:
        groups: dict[str, list[Placed]] = {}
        outcomes: list[Outcome] = []
        for at, notice in found:
            if (fate := self._fate(notice)) is None:
                groups.setdefault(notice.query, []).append((at, notice))
            else:
                outcomes.append(self._outcome(notice.id, notice.alert, (notice.id,), fate))
        planned = tuple(_planned(self.notifier.name, group) for group in _cut(groups.values()))
        self._notes.note(Mark(mark.next, upto, planned) if planned else Mark(upto, upto), outcomes)
        reach("alert-planned")

    # -- one message ------------------------------------------------------------------------------------------------

    def _sent(self, mark: Mark, planned: Planned) -> None:
        """Try once, with what is still to be sent of it."""
        found = self._found(planned)
        kept_back = self._kept_back(planned, found)
        if kept_back:
            left = planned.of([at for at in planned.offsets if at not in kept_back])
            self._notes.note(mark.left(left), list(kept_back.values()))
            return
        outcome = self._tried(Message(planned.id, planned.alert, tuple(found.values())))
        if outcome is not None:
            reach("alert-sent")
            self._notes.note(mark.left(planned.of(())), [outcome])

    def _found(self, planned: Planned) -> dict[int, Notice]:
        """Its notices, but for those that are no longer there; raises if one is, and cannot be read."""
        first, last = planned.offsets[0], planned.offsets[-1]
        there = dict(notices_from(self._log, first, last + 1 - first)[0])
        start, end = bounds_of(self._log, TOPIC)
        self._ends.append((end, time.monotonic()))
        for at in planned.offsets:
            if at not in there and start <= at < end:
                raise NotDelivered("a notice cannot be read now", where=f"topic {TOPIC}, offset {at}")
        return {at: there[at] for at in planned.offsets if at in there}

    def _kept_back(self, planned: Planned, found: dict[int, Notice]) -> dict[int, Outcome]:
        """Of its notices those that are not sent any more."""
        fates = {at: self._fate(found[at]) if at in found else LOST for at in planned.offsets}
        ids = dict(zip(planned.offsets, planned.notices, strict=True))
        return {
            at: self._outcome(planned.id, planned.alert, (ids[at],), fate, reason=_REMOVED if fate == LOST else None)
            for at, fate in fates.items()
            if fate is not None
        }

    def _tried(self, message: Message) -> Outcome | None:
        """None if it is to be tried again."""
        self._notes.hold()
        if self._tries.message != message.id:
            self._tries = Tries(message.id, time.monotonic() + self.notifier.options["patience"].total_seconds())
        self._tries.count += 1
        try:
            self._send.send(message)
        except Exception as error:
            return self._failed(message, _told(error))
        return self._outcome(message.id, message.alert, message.ids, DELIVERED, self._tries.count)

    def _failed(self, message: Message, error: HeadraceError) -> Outcome | None:
        pause = _pause(error, self._tries.count)
        if isinstance(error, Retry) and time.monotonic() + pause <= self._tries.given_up:
            self._stopping.wait(pause)
            return None
        reason = masked(f"{error.code}: {error.what}")[:_LONGEST_REASON]
        _logger.warning("notifier %s gave up message %s: %s", self.notifier.name, message.id, reason)
        state = DELIVERED if isinstance(error, Partly) or (isinstance(error, Later) and error.some) else DEAD
        return self._outcome(message.id, message.alert, message.ids, state, self._tries.count, reason)

    def _outcome(
        self, message: str, alert: str, notices: tuple[str, ...], state: str, tries: int = 0, reason: str | None = None
    ) -> Outcome:
        return Outcome(self.notifier.name, message, alert, notices, state, self._clock.now(), tries, reason)


def _cut(groups: Iterable[Sequence[Placed]]) -> Iterator[Sequence[Placed]]:
    """No message is too long to be read."""
    for group in groups:
        yield from (group[at : at + _TOGETHER] for at in range(0, len(group), _TOGETHER))


def _planned(notifier: str, group: Sequence[Placed]) -> Planned:
    """A message of one notice has that one's id; of several, one that follows from theirs."""
    ids = tuple(notice.id for _, notice in group)
    name = ids[0] if len(ids) == 1 else hashlib.sha256(" ".join((notifier, *ids)).encode()).hexdigest()[:24]
    return Planned(name, group[0][1].alert, tuple(at for at, _ in group), ids)


def _told(error: Exception) -> HeadraceError:
    """What nobody foresaw is not tried again: it would hold up all that comes behind."""
    if isinstance(error, HeadraceError):
        return error
    _logger.error("a sender failed", exc_info=error)
    return DeliveryRefused(f"the sender failed: {type(error).__name__}", fix="the server's log file says why")


def _pause(error: HeadraceError, tries: int) -> float:
    asked = error.seconds if isinstance(error, Later) else None
    usual = min(2.0 ** min(tries - 1, 30), _LONGEST) * random.uniform(0.5, 1.0)
    return usual if asked is None else min(max(asked, usual), _ASKED)


# -- all of them ----------------------------------------------------------------------------------------------------


class Couriers:
    """One for each notifier of the catalog, settled after every statement. `is_muted` is asked of each notice."""

    def __init__(self, log: Log, means: Means, clock: Clock, is_muted: Callable[[Notice], bool]) -> None:
        self._log = log
        self._means = means
        self._clock = clock
        self._is_muted = is_muted
        self._queries: frozenset[str] = frozenset()
        self._couriers: dict[str, Courier] = {}
        self._leaving: dict[str, Courier] = {}
        """Those that were dropped, and may have a message under way."""
        self._settled: frozenset[str] | None = None
        """The names of notifiers, when it was last looked for subscriptions without one."""

    def settle(self, catalog: Catalog) -> None:
        self._queries = frozenset(query.id for query in catalog.alerts.values())
        for name, courier in list(self._couriers.items()):
            if catalog.notifiers.get(name) != courier.notifier:
                courier.stop()
                self._leaving[name] = self._couriers.pop(name)
        for name, notifier in catalog.notifiers.items():
            if name not in self._couriers:
                self._couriers[name] = self._begun(notifier)
        self._leaving = {name: courier for name, courier in self._leaving.items() if courier.is_alive}
        if self._settled != frozenset(catalog.notifiers):
            self._means.subscriptions.keep(catalog.notifiers)
            self._settled = frozenset(catalog.notifiers)

    def _begun(self, notifier: Notifier) -> Courier:
        before = self._leaving.pop(notifier.name, None)
        made = sender(notifier, self._means)
        return Courier(self._log, notifier, made, self._clock, self._fate, before)

    def _fate(self, notice: Notice) -> str | None:
        if notice.query not in self._queries:
            return DROPPED
        return MUTED if self._is_muted(notice) else None

    def close(self) -> None:
        """Who is sending is given a while; what has no outcome then is sent again."""
        all_of_them = [*self._couriers.values(), *self._leaving.values()]
        for courier in all_of_them:
            courier.stop()
        deadline = time.monotonic() + _PATIENCE
        for courier in all_of_them:
            courier.join(max(deadline - time.monotonic(), 0.0))


def tried_out(notifier: Notifier, means: Means, clock: Clock) -> None:
    """Send a message that says that it is a test; raises why it does not get through."""
    now = clock.now()
    text = "this is a test, by hand"
    notice = Notice(f"test-{now}", "TEST", "", notifier.name, "raised", "info", text, None, now, now)
    try:
        sender(notifier, means).send(Message(notice.id, notice.alert, (notice,)))
    except HeadraceError as error:
        error.what = masked(error.what)
        raise
