"""A lock between processes that serves in the order of asking and never outlives its holder.

Each asker draws a ticket, locks the byte of that number and then waits for the byte of the ticket before: a queue in
which everybody waits for one neighbour. The kernel frees a dead process's bytes, so kill -9 cannot jam it. The queue
gives only the order; what excludes others is the lock on the *gate* byte, because the neighbour in front may have
died while it was still waiting itself.

Without the queue, one of four busy processes got 1 commit while another got 28,064.

POSIX locks belong to the process (a forked child has none of them, which is what we want) and vanish when *any*
descriptor of the file is closed: hence one shared lock per file and process, kept open to the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_GUARD, _GATE, _FIRST_TICKET = 8, 9, 1024

_shared: dict[tuple[int, Path], FairLock] = {}
_shared_guard = threading.Lock()


class FairLock:
    """Hold it with `with lock:`-like `held()`; get it with `FairLock.of(path)`."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._threads = threading.Lock()

    @classmethod
    def of(cls, path: Path) -> FairLock:
        """The one lock of this process on that file."""
        with _shared_guard:
            key = (os.getpid(), path.resolve())
            if key not in _shared:
                _shared[key] = cls(path)
            return _shared[key]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the turn, hold the lock, give it back."""
        with self._threads:
            mine = self._draw()
            try:
                self._lock(mine - 1)
                self._lock(_GATE)
                yield
            finally:
                for byte in (_GATE, mine - 1, mine):
                    self._unlock(byte)

    def _draw(self) -> int:
        self._lock(_GUARD)
        try:
            mine = max(int.from_bytes(os.pread(self._fd, 8, 0), "little"), _FIRST_TICKET) + 1
            # The own byte is locked before the ticket is known to others: no follower can slip past.
            self._lock(mine)
            os.pwrite(self._fd, mine.to_bytes(8, "little"), 0)
            return mine
        finally:
            self._unlock(_GUARD)

    def _lock(self, byte: int) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, byte)

    def _unlock(self, byte: int) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)
