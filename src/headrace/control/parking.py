"""Queries that have left Spark for a while: they have read all there is, and wait for no moment in time.

They cost next to nothing: no process, no thread, now and then a look at how far their topics are. A query is back some
seconds after there is something to read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from headrace.control.running import Running
from headrace.control.ticks import is_timed
from headrace.engine.ground import Position
from headrace.engine.query import Prepared
from headrace.engine.realtime.choice import REALTIME


@dataclass(frozen=True)
class Parked:
    """A query that is not in Spark."""

    prepared: Prepared

    @property
    def is_done(self) -> bool:
        """Whether there is still nothing to read."""
        return not self.prepared.ground.waiting(self.prepared.topics, self._position)

    @cached_property
    def _position(self) -> Position | None:
        """It does not move while nobody runs the query, and is asked for several times a second."""
        return self.prepared.checkpoint.position() or self.prepared.manifest.start


@dataclass
class Idleness:
    """Since when each query has had nothing to do; `after` so many seconds it may leave, or never if that is 0."""

    after: float
    now: Callable[[], float] = time.monotonic
    _since: dict[str, tuple[int, float]] = field(default_factory=dict)

    def may_leave(self, running: Running) -> bool:
        """To be asked again and again. One that did a batch meanwhile begins to be idle anew."""
        name, batches = running.query.id, running.progress.batches
        known, since = self._since.setdefault(name, (batches, self.now()))
        if batches != known or running.is_starting or _is_bound(running):
            self._since[name] = (batches, self.now())
            return False
        return bool(self.after) and self.now() - since >= self.after and not running.waiting()


def _is_bound(running: Running) -> bool:
    """Whether it must stay. What a query waits for it tells with its batches; before the first nobody knows."""
    if running.way == REALTIME or running.progress.deadline is not None:
        return True
    return is_timed(running.query) and not running.progress.batches
