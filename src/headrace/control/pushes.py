"""Questions that go on (EMIT CHANGES, PRINT): one thread follows the topics for all who ask, and hands rows to each.

Who asks the same from now on, of single records, shares one follower: what follows from a record is found out once.
Others have a follower of their own.

Feeds have their turns, each for a short time. One whose records take so much of it that the others would wait, because
of a slow pattern, say, is ended with an error.

Rows wait for a reader in a bounded buffer. A follower of one's own is not stepped while its buffer is full, so who
reads slowly gets everything, later. Who shares one and does not keep up is let go, with an error that says so.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from typing import Any

from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.following import Follower
from headrace.control.printing import Printing
from headrace.control.ticks import Pace, is_timed
from headrace.errors import Closed, HeadraceError, QueryFailed, SlowReader, TooLong, TooManyReaders
from headrace.log.news import News
from headrace.plan.answers.rows import Row, Rows
from headrace.plan.catalog import Ask
from headrace.plan.nodes import Explode, Filter, Select, Sink, Source, walk

FULL = 10_000
"""Rows that wait for a reader."""
_PATIENCE = 1.0
_TICK = 0.1
"""Seconds between two looks at the clock for questions that wait for a moment in time."""
_TURN, _BEYOND = 0.1, 10.0
"""Seconds of processor time that a feed's turn may take on the average, and how far beyond that it is let go on."""
_SINGLE = (Sink, Select, Filter, Explode, Source)

_logger = logging.getLogger(__name__)


def is_single(ask: Ask) -> bool:
    """Whether each row follows from one record alone, so that it does not matter when one begins to ask."""
    return len(ask.query.sources) == 1 and all(isinstance(node, _SINGLE) for node in walk(ask.query.sink))


class Subscription:
    """Somebody who asks. `notify` is called, on another thread, when there is something to take."""

    def __init__(self, limit: int | None, notify: Callable[[], None]) -> None:
        self._left = limit
        self._notify = notify
        self._rows: deque[Row] = deque()
        self._lock = threading.Lock()
        self.failure: HeadraceError | None = None
        self.ended = limit == 0
        """No further rows will come."""

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= FULL

    def take(self) -> list[Row]:
        """All rows that wait. Look at `ended` before, not after: rows may come in between."""
        with self._lock:
            rows = list(self._rows)
            self._rows.clear()
        return rows

    def give(self, rows: list[Row]) -> None:
        with self._lock:
            if self.ended:
                return
            wanted = rows if self._left is None else rows[: self._left]
            self._rows.extend(wanted)
            if self._left is not None:
                self._left -= len(wanted)
                self.ended = not self._left
        self._notify()

    def end(self, failure: HeadraceError | None = None) -> None:
        with self._lock:
            self.ended, self.failure = True, self.failure or failure
        self._notify()


@dataclass
class Feed:
    """A follower and those who share it."""

    follower: Follower | Printing
    rows: Rows | Printing
    timed: bool
    key: object = None
    """By which others find it; None if it is somebody's own."""
    readers: tuple[Subscription, ...] = ()
    """Another tuple for each who comes or goes: the thread may be going through it."""
    _pace: Pace | None = None
    _beyond: float = 0.0
    """Seconds that its last turns took too long."""

    @property
    def is_held(self) -> bool:
        """Nobody could take more. A slow one among several does not hold up the others."""
        return all(reader.is_full for reader in self.readers)

    def step(self, now: int) -> bool:
        """Hand out what follows from the next records, if there are any."""
        if self.is_held:
            return False
        began = thread_time()
        entries = self.follower.step()
        if self.timed and entries is not None:
            self._pace = Pace(self.follower.time, now)
        made = self._ticked(now) if entries is None else entries
        if made:
            self._give(self.rows.of(made))
        self._took(thread_time() - began)
        return entries is not None

    def _took(self, seconds: float) -> None:
        self._beyond = max(0.0, self._beyond + seconds - _TURN)
        if self._beyond > _BEYOND:
            what = f"the question keeps others waiting: it took {_BEYOND:g} s of processor time beyond its turns"
            fix = (
                "leave out what is slow, as a pattern with repetitions inside repetitions is; or store what it answers"
            )
            raise TooLong(what, fix=f"{fix} with CREATE STREAM ... AS SELECT, and ask that")

    def _ticked(self, now: int) -> list[Any]:
        """Without records event time goes on with the clock, once it is known."""
        return [] if self._pace is None else self.follower.tick(self._pace.reached(now))

    def _give(self, rows: list[Row]) -> None:
        for reader in self.readers:
            if reader.is_full:
                reader.end(SlowReader(f"more than {FULL} rows wait to be read", fix="read faster, or ask for less"))
            else:
                reader.give(rows)


class Pushes:
    """The thread, and the feeds it goes through."""

    def __init__(self, log: Log, clock: Clock, most: int) -> None:
        self._log, self._clock = log, clock
        self.most = most
        """How many may ask at once; 0: any number."""
        self._news = News(log)
        self._lock = threading.Lock()
        self.feeds: list[Feed] = []
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="pushes", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """How many ask."""
        return sum(len(feed.readers) for feed in self.feeds)

    def subscribe(self, ask: Ask, *, from_beginning: bool, notify: Callable[[], None]) -> Subscription:
        reader = Subscription(ask.limit, notify)
        key = None if from_beginning or not is_single(ask) else (ask.query.sink, ask.columns)
        with self._lock:
            self._check_room()
            feed = next((feed for feed in self.feeds if key is not None and feed.key == key), None)
            if feed is None:
                follower = Follower(self._log, ask.query, from_beginning=from_beginning)
                feed = Feed(follower, Rows(ask), is_timed(ask.query), key)
                self.feeds.append(feed)
            feed.readers = (*feed.readers, reader)
        self._news.wake()
        return reader

    def print(self, printing: Printing, *, notify: Callable[[], None]) -> Subscription:
        reader = Subscription(printing.limit, notify)
        with self._lock:
            self._check_room()
            self.feeds.append(Feed(printing, printing, timed=False, readers=(reader,)))
        self._news.wake()
        return reader

    def _check_room(self) -> None:
        if 0 < self.most <= len(self):
            fix = "try again later, ask without EMIT CHANGES, or raise the setting push_queries"
            raise TooManyReaders(f"{self.most} questions go on already", fix=fix)

    def unsubscribe(self, reader: Subscription) -> None:
        reader.end()
        with self._lock:
            for feed in self.feeds:
                feed.readers = tuple(one for one in feed.readers if one is not reader)
            self.feeds = [feed for feed in self.feeds if feed.readers]

    def close(self) -> None:
        self._ended = True
        self._news.wake()
        self._thread.join()
        for feed in self.feeds:
            for reader in feed.readers:
                reader.end(Closed("the server stops", fix="ask again when it is back"))

    # -- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended:
            self._news.look()
            with self._lock:
                feeds = [feed for feed in self.feeds if not all(reader.ended for reader in feed.readers)]
            went_on = [self._step(feed) for feed in feeds]
            if not any(went_on) and not self._ended:
                hurry = any(feed.timed or feed.is_held for feed in feeds)
                self._news.wait(_TICK if hurry else _PATIENCE)

    def _step(self, feed: Feed) -> bool:
        try:
            return feed.step(self._clock.now())
        except Exception as error:  # a question that cannot go on does not harm the others
            known = isinstance(error, HeadraceError)
            _logger.warning("a question ended: %s", error, exc_info=not known)
            failure = error if isinstance(error, HeadraceError) else _unexpected(error)
            for reader in feed.readers:
                reader.end(failure)
            return False


def _unexpected(error: Exception) -> HeadraceError:
    return QueryFailed(f"the question cannot go on: {error!r}", fix="see the log of the server")
