"""Commit signal: shared memory through which the processes of one log notify each other.

One memory page in a file of the data folder, mapped by every process. It holds a counter that changes at every commit
(readers sleep on it in the kernel, so waiting costs nothing and waking takes microseconds), and how far the commit log
has been written and synced. It only holds hints: after a machine crash it is reset, and correctness never depends on a
signal arriving.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path

from headrace.log.embedded.ipc import futex

_SIZE = 4096


class _Page(ctypes.Structure):
    _fields_ = (
        ("commits", ctypes.c_uint32),
        ("catalog", ctypes.c_uint32),
        ("committed", ctypes.c_uint64),
        ("synced", ctypes.c_uint64),
        ("boot", ctypes.c_char * 40),
    )


def _boot() -> bytes:
    source = Path("/proc/sys/kernel/random/boot_id")
    return source.read_bytes().strip() if source.exists() else b""


def durable_sequence(path: Path) -> int:
    """The sequence up to which a log was synced since the machine started, without opening it; 0 if unknown."""
    content = path.read_bytes() if path.is_file() else b""
    if len(content) < ctypes.sizeof(_Page):
        return 0
    page = _Page.from_buffer_copy(content)
    return page.synced if page.boot == _boot() else 0


class CommitSignal:
    """`commits` counts commits; `committed` and `synced` are sequences; `catalog` counts changes of topics."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Allocated blocks, not a hole: on a full disk, writing into a hole of a mapped file would kill the process.
            os.posix_fallocate(fd, 0, _SIZE)
            self._map = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        self.page = _Page.from_buffer(self._map)
        self._word = ctypes.c_uint32.from_buffer(self._map)  # the page's first field

    def initialize(self, sequence: int) -> None:
        """Called under the write lock when the log is opened, with the sequence that is stored in the database."""
        if self.page.boot != _boot():
            # The machine has rebooted: what the page calls synced may have been lost.
            self.page.synced = 0
            self.page.boot = _boot()
        self.page.committed = sequence

    @property
    def durable(self) -> int:
        """The sequence up to which the log was synced since the machine started; 0 if that is not known."""
        return self.page.synced if self.page.boot == _boot() else 0

    @property
    def commits(self) -> int:
        return self.page.commits

    def notify(self) -> None:
        """Wake all waiting readers, in all processes."""
        self.page.commits = (self.page.commits + 1) & 0xFFFFFFFF
        futex.wake(self._word)

    def wait(self, seen: int, seconds: float) -> int:
        """Sleep until a commit happened since `seen`, or until the timeout; returns the current count."""
        deadline = time.monotonic() + seconds
        while self.page.commits == seen and (left := deadline - time.monotonic()) > 0:
            futex.wait(self._word, seen, left)
        return self.page.commits
