"""Materializes all views of a log in one thread: in each turn every view applies some records.

A view that fails is retried with a growing delay and does not block the others.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.backoff import Backoff
from headrace.contracts import Log
from headrace.errors import Closed, ViewLagging
from headrace.log.follow_loop import IDLE_SECONDS, FollowLoop
from headrace.views.contract import Position, View, ViewState
from headrace.views.materializer import ViewMaterializer
from headrace.watched_lock import WatchedLock

_QUIET_SECONDS = 0.01
_BACKOFF = Backoff(1.0, 60.0)

_logger = logging.getLogger(__name__)


@dataclass
class ViewTask:
    """A materializer with its failure and its retries."""

    materializer: ViewMaterializer
    failure: Exception | None = None
    failures: int = 0
    """Failures in a row."""
    retry_at: float = 0.0
    is_removed: bool = False
    turn: WatchedLock = field(default_factory=lambda: WatchedLock("materialized view"))
    """Held during a step of this view: the steps of others are not waited for."""


class MaterializerLoop:
    """Runs the thread, and lets callers wait for a position."""

    def __init__(self, log: Log) -> None:
        self._tasks: dict[str, ViewTask] = {}
        self._changed = threading.Condition()
        self._loop = FollowLoop(log, "views", self._turn, quiet_seconds=_QUIET_SECONDS).start()

    def add(self, materializer: ViewMaterializer) -> None:
        self._tasks[materializer.name] = ViewTask(materializer)
        self._loop.wake()

    def remove(self, name: str) -> None:
        """Stops materializing a view. After it returns nothing more is applied; the view itself stays open."""
        if (task := self._tasks.get(name)) is not None:
            task.is_removed = True
            with task.turn:
                self._tasks.pop(name, None)

    def view(self, name: str) -> View | None:
        task = self._tasks.get(name)
        return None if task is None else task.materializer.view

    def failure(self, name: str) -> Exception | None:
        """Why a view is not being materialized at the moment."""
        task = self._tasks.get(name)
        return None if task is None else task.failure

    def reached(self, name: str, position: Position, timeout: timedelta) -> ViewState:
        """Waits until a view reflects a position; raises ViewLagging on timeout."""
        task = self._tasks.get(name)
        if task is None or not task.materializer.state.reflects(position):
            with self._changed:
                self._changed.wait_for(lambda: self._has(name, position), timeout.total_seconds())
                task = self._tasks.get(name)
        if task is not None and task.materializer.state.reflects(position):
            return task.materializer.state
        at = None if task is None else dict(task.materializer.state.position)
        raise ViewLagging(
            f'view "{name}" did not reach {dict(position)} in {timeout.total_seconds():g} s',
            where=f"it is at {at}" if task else "it is not materialized",
            fix="try again, or check that the query that writes it runs",
        ) from (task.failure if task else None)

    def _has(self, name: str, position: Position) -> bool:
        task = self._tasks.get(name)
        return task is None or task.materializer.state.reflects(position)

    def close(self) -> None:
        self._loop.close()

    # -- the thread -------------------------------------------------------------------------------------------------

    def _turn(self) -> float:
        return min([self._step(task) for task in list(self._tasks.values())], default=IDLE_SECONDS)

    def _step(self, task: ViewTask) -> float:
        """Returns the seconds until the view's next step if nothing is appended."""
        with task.turn:
            if task.is_removed:
                return IDLE_SECONDS
            if (retry_in := task.retry_at - time.monotonic()) > 0:
                return min(retry_in, IDLE_SECONDS)
            if not self._try_step(task):
                return IDLE_SECONDS
        with self._changed:
            self._changed.notify_all()
        return 0.0

    def _try_step(self, task: ViewTask) -> bool:
        try:
            progressed = task.materializer.step()
        except Closed:  # the log was closed meanwhile
            raise
        except Exception as error:
            task.failure, task.failures = error, task.failures + 1
            task.retry_at = time.monotonic() + _BACKOFF.pause(task.failures)
            _logger.warning("view %s is not updated until a retry succeeds: %s", task.materializer.name, error)
            return False
        task.failure, task.failures = None, 0
        return progressed
