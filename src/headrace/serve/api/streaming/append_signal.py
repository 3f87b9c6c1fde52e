"""Wakes live readers when something was appended: one thread, which runs while there are readers, waits for all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.contracts import Log
from headrace.errors import TooManyReaders, TooManyRequests
from headrace.fair_share import exceeds_share
from headrace.log.follow_loop import IDLE_SECONDS, FollowLoop

MAX_READERS = 500


class AppendSignal:
    def __init__(self, log: Log) -> None:
        self._log = log
        self.turn = 0
        """How often the readers were woken."""
        self._guard = threading.Lock()
        self._readers: dict[asyncio.Event, tuple[asyncio.AbstractEventLoop, str]] = {}
        """Each with its event loop and its user."""
        self._loop: FollowLoop | None = None

    @property
    def readers(self) -> int:
        return len(self._readers)

    @contextmanager
    def joined(self, user: str) -> Iterator[asyncio.Event]:
        """An event that is set at every append, until the end of the block. Event loop only."""
        woken = asyncio.Event()
        with self._guard:
            self._check_limit(user)
            self._readers[woken] = asyncio.get_running_loop(), user
            if self._loop is None:
                self._loop = FollowLoop(self._log, "append-signal", self._turn).start()
        try:
            yield woken
        finally:
            with self._guard:
                del self._readers[woken]
                if not self._readers and self._loop is not None:
                    self._loop.stop()
                    self._loop = None

    def _check_limit(self, user: str) -> None:
        count, fix = len(self._readers), "end some, try again later, or read page by page"
        if count >= MAX_READERS:
            raise TooManyReaders(f"the server already has {MAX_READERS} live readers", fix=fix)
        own = sum(reader == user for _, reader in self._readers.values())
        if exceeds_share(own, count, MAX_READERS):
            raise TooManyRequests(f"{user} already has {own} live readers, a user's share", fix=fix)

    def _turn(self) -> float:
        with self._guard:
            self.turn += 1
            for woken, (loop, _) in self._readers.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(woken.set)
        return IDLE_SECONDS
