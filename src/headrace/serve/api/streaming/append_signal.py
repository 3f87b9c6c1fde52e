"""Wakes live readers when something was appended: one thread waits on the log's commit signal for all of them.

The thread runs while there are readers. A log without a commit signal (Kafka) is polled a few times a second.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.contracts import Log
from headrace.errors import TooManyReaders
from headrace.log.append_waiter import AppendWaiter

MAX_READERS = 500
_PATIENCE = 1.0  # seconds until the thread notices that there are no readers left


class AppendSignal:
    def __init__(self, log: Log) -> None:
        self._log = log
        self.turn = 0
        """How often the readers were woken."""
        self._guard = threading.Lock()
        self._readers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._thread: threading.Thread | None = None

    @property
    def readers(self) -> int:
        return len(self._readers)

    @contextmanager
    def joined(self) -> Iterator[asyncio.Event]:
        """An event that is set at every append, until the end of the block. Event loop only."""
        woken = asyncio.Event()
        with self._guard:
            if len(self._readers) >= MAX_READERS:
                raise TooManyReaders(
                    f"the server already has {MAX_READERS} live readers", fix="try again later, or read page by page"
                )
            self._readers[woken] = asyncio.get_running_loop()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headrace-append-signal", daemon=True)
                self._thread.start()
        try:
            yield woken
        finally:
            with self._guard:
                del self._readers[woken]

    def _run(self) -> None:
        news = AppendWaiter(self._log)
        while True:
            news.watch()
            with self._guard:
                if not self._readers:
                    self._thread = None
                    return
                self.turn += 1
                for woken, loop in self._readers.items():
                    if not loop.is_closed():
                        loop.call_soon_threadsafe(woken.set)
            news.wait(_PATIENCE)
