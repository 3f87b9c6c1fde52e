"""Waits for new records in a log, embedded or Kafka.

The embedded log has a commit signal that fires at every commit, so waiting on it costs nothing. Kafka has none and is
polled a few times a second.
"""

from __future__ import annotations

import threading
from datetime import timedelta

from headrace.contracts import Log
from headrace.log.embedded import EmbeddedLog

POLL_SECONDS = 0.25
"""Seconds between two polls of a log without a commit signal."""


class AppendWaiter:
    """For one thread that reads, processes and waits in a loop; other threads may wake it."""

    def __init__(self, log: Log) -> None:
        self._log = log if isinstance(log, EmbeddedLog) else None
        self._woken = threading.Event()
        self._rung = 0
        self.look()

    def look(self) -> None:
        """Start watching: everything from now on counts as new. Call it before reading the log."""
        self._woken.clear()
        if self._log is not None:
            self._rung = self._log.store.bell.rings

    def wait(self, timeout: float) -> None:
        """Wait until something was appended since the last `look`, or until the timeout."""
        if self._log is None:
            self._woken.wait(min(timeout, POLL_SECONDS))
        elif not self._woken.is_set():
            self._log.wait(self._rung, timedelta(seconds=timeout))

    def wake(self) -> None:
        self._woken.set()
        if self._log is not None:
            self._log.store.bell.ring()
