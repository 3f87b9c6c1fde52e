"""Events of queries that fail, in a topic, so that an alert can watch them.

Each failure is a record of the topic `query_events`: its key is the query, its value says in JSON whether the query is
restarted. A thread of its own writes them: nobody waits for a log that does not respond. It repeats an append until
that succeeds; if too many events wait meanwhile, the oldest are dropped, which is logged.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Mapping

from headrace.backoff import Backoff
from headrace.clock import Clock
from headrace.contracts import Append, Log
from headrace.control.queries.restart_policy import QueryFailure
from headrace.errors import HeadraceError
from headrace.log.topic_spec import TopicSpec, ensure_topic
from headrace.record import Record
from headrace.settings import Size

TOPIC = "query_events"
RESTARTING, FAILED = "restarting", "failed"
_SPEC = TopicSpec(retention_bytes=Size(64 << 20))
_MAX_WAITING = 1_000
_BACKOFF = Backoff(0.5, 30.0)
_CLOSE_TIMEOUT = 2.0  # seconds for the last events to be written
_logger = logging.getLogger(__name__)


class FailureEvents:
    """Counts failures, and writes their events from the first one on."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._counts: Counter[tuple[str, str]] = Counter()
        self._waiting: deque[Record] = deque(maxlen=_MAX_WAITING)
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """The number of failures since the server's start, by query and code."""
        return dict(self._counts)

    def add(self, query: str, failure: QueryFailure, batch: int | None) -> None:
        """Record a failure; `batch` is the number of the batch that was not finished."""
        error, state = failure.error, FAILED if failure.restart_at is None else RESTARTING
        self._counts[query, error.code] += 1
        event = {"STATE": state, **{name.upper(): value for name, value in error.as_dict().items()}}
        event |= {"FAILURES": failure.count, "BATCH": batch, "AT": self._clock.now()}
        if len(self._waiting) == _MAX_WAITING:
            _logger.warning("the oldest event of %s is dropped: too many wait", TOPIC)
        self._waiting.append(Record(json.dumps(event).encode(), query.encode()))
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="headrace-query-events", daemon=True)
            self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Write what waits, for a limited time."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT)

    def _write_all(self) -> None:
        tries = 0
        while self._waiting or not self._closed.is_set():
            if not self._waiting:
                self._wake.wait()
                self._wake.clear()
                continue
            try:
                self._write()
                tries = 0
            except Exception as error:  # an unexpected one, too: without the thread, events would be lost silently
                tries += 1
                is_defect = not isinstance(error, HeadraceError)
                _logger.warning(
                    "events of queries were not written, and are tried again: %s", error, exc_info=is_defect
                )
                if self._closed.wait(_BACKOFF.pause(tries)):
                    return

    def _write(self) -> None:
        records = list(self._waiting)
        ensure_topic(self._log, TOPIC, _SPEC)
        self._log.append([Append(TOPIC, records)])
        for record in records:
            if self._waiting and self._waiting[0] is record:  # else it was dropped meanwhile
                self._waiting.popleft()
