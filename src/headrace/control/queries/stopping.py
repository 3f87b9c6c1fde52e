"""Stops of queries: each is a request with a deadline, carried out by a thread of its own.

A query that is asked to stop finishes its batch. At the deadline its work is ended by force; the batch is repeated when
the query starts again. Nobody waits for a stop while holding a lock: what has to follow it (for example the removal of
a checkpoint) is passed along and runs once the query has stopped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.control.workers.handle import QueryHandle
from headrace.plan.nodes import Query

_logger = logging.getLogger(__name__)
Action = Callable[[], None]
_FORCE_SECONDS = 60.0  # beyond the deadline: to end the batch, or its process, by force, and for what has to follow


class QueryStop:
    """The stop of one query. `blocks` are the queries that must not start before it is complete."""

    def __init__(self, query: Query, timeout: float, on_complete: Callable[[QueryStop], None]) -> None:
        self.query = query
        self.name = query.id
        self.blocks = {query.id}
        self._timeout = timeout
        self.longest = timeout + _FORCE_SECONDS
        """Seconds after which nobody waits for the stop any longer."""
        self._on_complete = on_complete
        self._actions: list[Action] = []
        self._lock = threading.Lock()
        self._is_complete = False
        self._completed = threading.Event()

    def start(self, handle: QueryHandle | None) -> None:
        """Begin to stop; None: the query did not start."""
        threading.Thread(target=self._run, args=(handle,), name=f"headrace-stop-{self.name}", daemon=True).start()

    def then(self, action: Action) -> bool:
        """Run an action once the query has stopped; False if that was already."""
        with self._lock:
            if not self._is_complete:
                self._actions.append(action)
            return not self._is_complete

    def wait(self, timeout: float) -> bool:
        return self._completed.wait(timeout)

    def _run(self, handle: QueryHandle | None) -> None:
        if handle is not None:
            self._attempt(lambda: handle.stop(self._timeout))
        while (action := self._next()) is not None:
            self._attempt(action)
        _logger.info("query %s stopped", self.name)
        self._on_complete(self)
        self._completed.set()

    def _next(self) -> Action | None:
        with self._lock:
            self._is_complete = not self._actions
            return None if self._is_complete else self._actions.pop(0)

    def _attempt(self, action: Action) -> None:
        try:
            action()
        except Exception:  # the next start of the server completes it: orphaned checkpoints are deleted then
            _logger.exception("a step of stopping query %s failed", self.name)


def after_stop(stop: QueryStop | None, action: Action) -> None:
    """Run an action once a query has stopped; at once, in this thread, if it is not running (None)."""
    if stop is None or not stop.then(action):
        action()
