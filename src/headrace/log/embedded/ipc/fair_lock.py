"""A first-come, first-served lock between processes, which is released when its holder dies.

Each process draws a ticket, locks the byte of that number and then waits for the byte of the ticket before it: a queue
in which each process waits for one neighbour. The kernel releases the bytes of a dead process, so kill -9 cannot block
the queue. The queue only provides the order; mutual exclusion comes from the lock on the *gate* byte, because the
neighbour in front may have died while it was still waiting.

Without the queue, one of four busy processes got 1 commit while another got 28,064.

POSIX locks belong to the process (a forked child has none of them, as intended) and are released when *any* descriptor
of the file is closed: hence one shared lock per file and process, which stays open until the process exits.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from headrace.long_waits import LONG_WAITS, REPORT_SECONDS

_GUARD, _GATE, _FIRST_TICKET = 8, 9, 1024
_PAUSE, _LONGEST_PAUSE = 0.00005, 0.002

_descriptors: dict[tuple[int, int, int], int] = {}
_locks: dict[int, FairLock] = {}
_turns: dict[tuple[int, int], TryLock] = {}
_guard = threading.Lock()


def descriptor(path: Path) -> int:
    """The only descriptor of this process on a lock file."""
    with _guard:
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        # By inode, not by name: a folder may be removed and created again during the life of this process.
        file_stat = path.stat()
        key = (os.getpid(), file_stat.st_dev, file_stat.st_ino)
        if key not in _descriptors:
            _descriptors[key] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return _descriptors[key]


def try_lock(fd: int, byte: int) -> bool:
    """Lock a byte of a file, unless another process holds it."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def unlock(fd: int, byte: int) -> None:
    fcntl.lockf(fd, fcntl.LOCK_UN, 1, byte)


class TryLock:
    """A lock that never blocks: a byte of a file between processes, a Python lock between threads.

    Get it with `TryLock.of(fd, byte)`: a process that opens a log twice must not hold the lock twice.
    """

    def __init__(self, fd: int, byte: int) -> None:
        self._fd, self._byte = fd, byte
        self._thread = threading.Lock()

    @classmethod
    def of(cls, fd: int, byte: int) -> TryLock:
        """The only lock of this process on that byte."""
        with _guard:
            return _turns.setdefault((fd, byte), cls(fd, byte))

    def take(self) -> bool:
        if not self._thread.acquire(blocking=False):
            return False
        if try_lock(self._fd, self._byte):
            return True
        self._thread.release()
        return False

    def give(self) -> None:
        unlock(self._fd, self._byte)
        self._thread.release()


def _reported(holder: str, waited: float) -> AbstractContextManager[None]:
    return LONG_WAITS.waiting("write lock of the log", threading.current_thread().name, holder, since=waited)


class FairLock:
    """Get it with `FairLock.of(path)`, hold it with `with lock.held():`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._threads = threading.Lock()

    @classmethod
    def of(cls, path: Path) -> FairLock:
        """The only lock of this process on that file."""
        fd = descriptor(path)
        with _guard:
            return _locks.setdefault(fd, cls(fd))

    @contextlib.contextmanager
    def held(self, seconds: float = 30.0) -> Iterator[None]:
        """Wait in the queue, hold the lock, release it; TimeoutError if it is not acquired in time."""
        deadline = time.monotonic() + seconds
        self._take_turn(seconds)
        try:
            ticket = self._next_ticket()
            try:
                self._lock_until(ticket - 1, deadline)
                self._lock_until(_GATE, deadline)
                yield
            finally:
                for byte in (_GATE, ticket - 1, ticket):
                    unlock(self._fd, byte)
        finally:
            self._threads.release()

    def _take_turn(self, seconds: float) -> None:
        """Wait for the other threads of this process."""
        first = min(seconds, REPORT_SECONDS)
        if self._threads.acquire(timeout=first):
            return
        if first == seconds:
            raise TimeoutError
        with _reported("another thread", first):
            if not self._threads.acquire(timeout=seconds - first):
                raise TimeoutError

    def _lock_until(self, byte: int, deadline: float) -> None:
        """Wait for the other processes."""
        first = min(deadline, time.monotonic() + REPORT_SECONDS)
        if self._poll_until(byte, first):
            return
        if first == deadline:
            raise TimeoutError
        with _reported("another process", REPORT_SECONDS):
            if not self._poll_until(byte, deadline):
                raise TimeoutError

    def _poll_until(self, byte: int, deadline: float) -> bool:
        """Polls, because waiting in the kernel has no timeout; at most one process polls for a byte."""
        pause = _PAUSE
        while not try_lock(self._fd, byte):
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        return True

    def _next_ticket(self) -> int:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, _GUARD)
        try:
            mine = max(int.from_bytes(os.pread(self._fd, 8, 0), "little"), _FIRST_TICKET) + 1
            # The byte is locked before other processes can see the ticket: no successor can overtake.
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, mine)
            os.pwrite(self._fd, mine.to_bytes(8, "little"), 0)
            return mine
        finally:
            unlock(self._fd, _GUARD)
