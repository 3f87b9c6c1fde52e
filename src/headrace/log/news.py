"""Waiting for something new in a log, whichever it is.

The embedded log has a bell that rings with every commit, so who sleeps on it costs nothing. Kafka has none: one looks
a few times a second.
"""

from __future__ import annotations

import threading
from datetime import timedelta

from headrace.contracts import Log
from headrace.log.embedded import EmbeddedLog

LOOK = 0.25
"""Seconds between two looks at a log without a bell."""


class News:
    """For one thread that looks, does what there is to do, and waits; others may wake it."""

    def __init__(self, log: Log) -> None:
        self._log = log if isinstance(log, EmbeddedLog) else None
        self._woken = threading.Event()
        self._rung = 0
        self.look()

    def look(self) -> None:
        """What comes from now on is news. To be called before one looks at the log."""
        self._woken.clear()
        if self._log is not None:
            self._rung = self._log.store.bell.rings

    def wait(self, timeout: float) -> None:
        """Until there is news since the last `look`, or the time is over."""
        if self._log is None:
            self._woken.wait(min(timeout, LOOK))
        elif not self._woken.is_set():
            self._log.wait(self._rung, timedelta(seconds=timeout))

    def wake(self) -> None:
        self._woken.set()
        if self._log is not None:
            self._log.store.bell.ring()
