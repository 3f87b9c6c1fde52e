"""Materializes all views of a log in one thread: each applies some records in turn, until none has any; then it sleeps.

On the embedded log it waits for the append signal, so idle views cost nothing; on Kafka it polls a few times a second.
A view that fails is retried with a growing delay and does not block the others.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import timedelta

from headrace.backoff import Backoff
from headrace.contracts import Log
from headrace.errors import Closed, ViewLagging
from headrace.log.append_waiter import AppendWaiter
from headrace.views.contract import Position, View, ViewState
from headrace.views.materializer import ViewMaterializer

_PATIENCE = 1.0
_PAUSE = 0.01
"""Seconds between two polls: the append signal is sent for all topics, and others may be busy."""
_BACKOFF = Backoff(1.0, 60.0)

_logger = logging.getLogger(__name__)


@dataclass
class ViewTask:
    """A materializer with its failure and its retries."""

    keeper: ViewMaterializer
    failure: Exception | None = None
    tried: int = 0
    not_before: float = 0.0


class MaterializerLoop:
    """Runs the thread, and lets callers wait for a position."""

    def __init__(self, log: Log) -> None:
        self._appends = AppendWaiter(log)
        self._tasks: dict[str, ViewTask] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="views", daemon=True)
        self._thread.start()

    def add(self, keeper: ViewMaterializer) -> None:
        with self._changed:
            self._tasks[keeper.name] = ViewTask(keeper)
        self._appends.wake()

    def remove(self, name: str) -> None:
        """Stops materializing a view. After it returns nothing more is applied; the view itself stays open."""
        with self._changed:
            self._tasks.pop(name, None)

    def view(self, name: str) -> View | None:
        kept = self._tasks.get(name)
        return None if kept is None else kept.keeper.view

    def failure(self, name: str) -> Exception | None:
        """Why a view is not being materialized at the moment."""
        kept = self._tasks.get(name)
        return None if kept is None else kept.failure

    def reached(self, name: str, position: Position, timeout: timedelta) -> ViewState:
        """Waits until a view reflects a position; raises ViewLagging on timeout."""
        kept = self._tasks.get(name)
        if kept is None or not kept.keeper.state.reflects(position):
            with self._changed:
                self._changed.wait_for(lambda: self._has(name, position), timeout.total_seconds())
                kept = self._tasks.get(name)
        if kept is not None and kept.keeper.state.reflects(position):
            return kept.keeper.state
        at = None if kept is None else dict(kept.keeper.state.position)
        raise ViewLagging(
            f'view "{name}" did not reach {dict(position)} in {timeout.total_seconds():g} s',
            where=f"it is at {at}" if kept else "it is not materialized",
            fix="try again, or check that the query that writes it runs",
        ) from (kept.failure if kept else None)

    def _has(self, name: str, position: Position) -> bool:
        kept = self._tasks.get(name)
        return kept is None or kept.keeper.state.reflects(position)

    def close(self) -> None:
        self._ended = True
        self._appends.wake()
        self._thread.join()

    # -- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended:
            self._appends.watch()
            steps = [self._step(kept) for kept in list(self._tasks.values())]
            if not any(steps) and not self._ended:
                self._appends.wait(_PATIENCE)
                time.sleep(_PAUSE)

    def _step(self, kept: ViewTask) -> bool:
        with self._changed:
            if self._tasks.get(kept.keeper.name) is not kept or time.monotonic() < kept.not_before:
                return False
            went_on = self._tried(kept)
            if went_on:
                self._changed.notify_all()
            return went_on

    def _tried(self, kept: ViewTask) -> bool:
        try:
            went_on = kept.keeper.step()
        except Closed:
            self._ended = True  # the log was closed meanwhile
            return False
        except Exception as error:
            kept.failure, kept.tried = error, kept.tried + 1
            kept.not_before = time.monotonic() + _BACKOFF.pause(kept.tried)
            _logger.warning("view %s is not updated until a retry succeeds: %s", kept.keeper.name, error)
            return False
        kept.failure, kept.tried = None, 0
        return went_on
