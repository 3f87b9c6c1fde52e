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
        self._wake_event = threading.Event()
        self._seen_commits = 0
        self.watch()

    def watch(self) -> None:
        """Start watching: everything from now on counts as new. Call it before reading the log."""
        self._wake_event.clear()
        if self._log is not None:
            self._seen_commits = self._log.store.commit_signal.commits

    def wait(self, timeout: float) -> None:
        """Wait until something was appended since the last `watch`, or until the timeout."""
        if self._log is None:
            self._wake_event.wait(min(timeout, POLL_SECONDS))
        elif not self._wake_event.is_set():
            self._log.wait(self._seen_commits, timedelta(seconds=timeout))

    def wake(self) -> None:
        self._wake_event.set()
        if self._log is not None:
            self._log.store.commit_signal.notify()
