"""Executes push queries (EMIT CHANGES, PRINT): one thread follows the topics for all of them, and hands out the rows.

Identical stateless queries that start from now on share one follower, so each record is processed once for all of them.
Other queries have their own follower.

Feeds take turns, each for a short time. A feed that exceeds its CPU budget, for example by a slow regular expression,
is stopped with an error, because it would delay the others.

Rows are buffered for each reader, with a limit. An unshared follower pauses while its buffer is full, so a slow reader
gets all rows, later. A slow reader of a shared follower is disconnected with the error `slow-consumer`.
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
from headrace.control.queries.ticks import EventTimePace, is_timed
from headrace.control.serving.print_topic import TopicPrinter
from headrace.control.serving.processes import Process, Processes, ProcessKind
from headrace.control.serving.result_rows import ResultRow, ResultRowWriter
from headrace.control.serving.transient_query import TransientQuery
from headrace.errors import (
    Closed,
    HeadraceError,
    QueryFailed,
    QueryTimeLimitExceeded,
    SlowConsumer,
    TooManyReaders,
    TooManyRequests,
)
from headrace.fair_share import exceeds_share
from headrace.log.follow_loop import IDLE_SECONDS, FollowLoop
from headrace.plan.actions import TransientSelect
from headrace.plan.nodes import walk
from headrace.watched_lock import WatchedLock

MAX_BUFFERED_ROWS = 10_000
"""Limit of the rows buffered for a reader."""
_TICK_INTERVAL = 0.1
"""Seconds between ticks of queries with deadlines."""
_CPU_PER_TURN, _CPU_BUDGET = 0.1, 10.0
"""Average CPU seconds that a feed's turn may take, and the excess in seconds after which the feed is stopped."""

_logger = logging.getLogger(__name__)


def is_stateless(select: TransientSelect) -> bool:
    """Whether each row depends on a single record, so that the start of the query does not matter."""
    traits = [node.traits for node in walk(select.query.sink)]
    return len(select.query.sources) == 1 and all(one.preserves_key and not one.stateful for one in traits)


class PushSubscription:
    """A reader of a push query. `notify` is called on another thread when there are rows, or the query has ended."""

    def __init__(self, limit: int | None, notify: Callable[[], None], principal: str = "") -> None:
        self.principal = principal
        self._remaining = limit
        self._notify = notify
        self._rows: deque[ResultRow] = deque()
        self._lock = threading.Lock()
        self.process: Process | None = None
        """What it is listed as."""
        self.failure: HeadraceError | None = None
        self.ended = limit == 0
        """No further rows will arrive."""

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= MAX_BUFFERED_ROWS

    def take(self, most: int = MAX_BUFFERED_ROWS) -> list[ResultRow]:
        """Take the oldest buffered rows. Read `ended` before, not after: rows may arrive in between."""
        with self._lock:
            return [self._rows.popleft() for _ in range(min(most, len(self._rows)))]

    def add(self, rows: list[ResultRow]) -> None:
        with self._lock:
            if self.ended:
                return
            accepted = rows if self._remaining is None else rows[: self._remaining]
            self._rows.extend(accepted)
            if self.process is not None:
                self.process.count(len(accepted), sum(len(row.text) for row in accepted))
            if self._remaining is not None:
                self._remaining -= len(accepted)
                self.ended = not self._remaining
        self._notify()

    def end(self, failure: HeadraceError | None = None) -> None:
        with self._lock:
            self.ended, self.failure = True, self.failure or failure
        self._notify()


@dataclass
class PushFeed:
    """A follower and the readers that share it."""

    follower: TransientQuery | TopicPrinter
    rows: ResultRowWriter | TopicPrinter
    timed: bool
    key: object = None
    """Identifies a feed that can be shared; None if it cannot."""
    readers: tuple[PushSubscription, ...] = ()
    """Replaced, never changed, when a reader comes or goes: the thread may be iterating over it."""
    _pace: EventTimePace | None = None
    _excess_cpu: float = 0.0
    """CPU seconds that its turns took beyond the average."""

    @property
    def is_blocked(self) -> bool:
        """Whether all readers' buffers are full. One slow reader does not hold up the others."""
        return all(reader.is_full for reader in self.readers)

    def step(self, now: int) -> bool:
        """Process the next records and hand out the rows; returns whether there were records."""
        if self.is_blocked:
            return False
        began = thread_time()
        results = self.follower.step()
        had_records = results is not None
        if self.timed and had_records:
            self._pace = EventTimePace(self.follower.time, now)
        if results := self._tick(now) if results is None else results:
            self._distribute(self.rows.render(results))
        self._charge(thread_time() - began)
        return had_records

    def _charge(self, seconds: float) -> None:
        self._excess_cpu = max(0.0, self._excess_cpu + seconds - _CPU_PER_TURN)
        if self._excess_cpu > _CPU_BUDGET:
            what = (
                f"the push query exceeded its CPU budget: it used {_CPU_BUDGET:g} s of processor time beyond its share"
            )
            fix = "remove slow expressions, such as a pattern with nested repetitions, or store the result"
            raise QueryTimeLimitExceeded(what, fix=f"{fix} with CREATE STREAM ... AS SELECT and query that")

    def _tick(self, now: int) -> list[Any]:
        """Without records, event time advances with the clock once it is known."""
        return [] if self._pace is None else self.follower.tick(self._pace.reached(now))

    def _distribute(self, rows: list[ResultRow]) -> None:
        for reader in self.readers:
            if reader.is_full:
                reader.end(
                    SlowConsumer(
                        f"the client has more than {MAX_BUFFERED_ROWS} unread rows",
                        fix="read faster, or restrict the query with WHERE",
                    )
                )
            else:
                reader.add(rows)


class PushQueries:
    """All feeds, and the thread that runs them in turn."""

    def __init__(self, log: Log, clock: Clock, max_queries: int, processes: Processes) -> None:
        self._log, self._clock, self._processes = log, clock, processes
        self.max_queries = max_queries
        """Limit of concurrent push queries; 0 is no limit."""
        self._lock = WatchedLock("push queries")
        self.feeds: list[PushFeed] = []
        self._loop = FollowLoop(log, "pushes", self._turn).start()

    def __len__(self) -> int:
        """The number of readers."""
        return sum(len(feed.readers) for feed in self.feeds)

    def subscribe(
        self, select: TransientSelect, *, from_beginning: bool, notify: Callable[[], None]
    ) -> PushSubscription:
        reader = PushSubscription(select.limit, notify, select.principal)
        key = None if from_beginning or not is_stateless(select) else (select.query.sink, select.columns)
        if not self._join(key, reader):
            follower = TransientQuery(self._log, select.query, from_beginning=from_beginning)  # reads the log
            self._join(key, reader, PushFeed(follower, ResultRowWriter(select), is_timed(select.query), key))
        reader.process = self._processes.begin(ProcessKind.PUSH, select)
        reader.process.on_kill(reader.end)
        self._loop.wake()
        return reader

    def _join(self, key: object, reader: PushSubscription, new: PushFeed | None = None) -> bool:
        """Add a reader to the feed that it can share, or else to a new one; whether there was one."""
        with self._lock:
            self._check_limit(reader.principal)
            feed = next((feed for feed in self.feeds if key is not None and feed.key == key), new)
            if feed is None:
                return False
            feed.readers = (*feed.readers, reader)
            if feed is new:
                self.feeds.append(feed)
            return True

    def print(self, printer: TopicPrinter, *, notify: Callable[[], None]) -> PushSubscription:
        reader = PushSubscription(printer.limit, notify, printer.principal)
        with self._lock:
            self._check_limit(printer.principal)
            self.feeds.append(PushFeed(printer, printer, timed=False, readers=(reader,)))
        self._loop.wake()
        return reader

    def _check_limit(self, principal: str) -> None:
        if not self.max_queries:
            return
        fix = "end some, try again later, remove EMIT CHANGES, or raise the setting query.max_push_queries"
        if len(self) >= self.max_queries:
            raise TooManyReaders(f"the server already runs {self.max_queries} push queries", fix=fix)
        own = sum(reader.principal == principal for feed in self.feeds for reader in feed.readers)
        if exceeds_share(own, len(self), self.max_queries):
            raise TooManyRequests(f"{principal} already runs {own} push queries, a user's share", fix=fix)

    def unsubscribe(self, reader: PushSubscription) -> None:
        reader.end()
        if reader.process is not None:
            self._processes.end(reader.process)
        with self._lock:
            for feed in self.feeds:
                feed.readers = tuple(one for one in feed.readers if one is not reader)
            self.feeds = [feed for feed in self.feeds if feed.readers]

    def close(self) -> None:
        self._loop.close()
        for feed in self.feeds:
            for reader in feed.readers:
                reader.end(Closed("the server is stopping", fix="send the query again after the server has restarted"))

    # -- the thread -------------------------------------------------------------------------------------------------

    def _turn(self) -> float:
        """A step of each feed; returns the seconds until the next turn if nothing is appended."""
        with self._lock:
            feeds = [feed for feed in self.feeds if not all(reader.ended for reader in feed.readers)]
        had_records = [self._step(feed) for feed in feeds]
        if any(had_records):
            return 0.0
        return _TICK_INTERVAL if any(feed.timed or feed.is_blocked for feed in feeds) else IDLE_SECONDS

    def _step(self, feed: PushFeed) -> bool:
        try:
            return feed.step(self._clock.now())
        except Exception as error:  # a query that fails does not affect the others
            known = isinstance(error, HeadraceError)
            _logger.warning("a push query ended: %s", error, exc_info=not known)
            failure = error if isinstance(error, HeadraceError) else _unexpected(error)
            for reader in feed.readers:
                reader.end(failure)
            return False


def _unexpected(error: Exception) -> HeadraceError:
    return QueryFailed(f"the push query failed: {error!r}", fix="see the server's log")
