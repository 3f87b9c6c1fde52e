"""Shared memory through which the processes of one log tell each other what happened.

A page of the data folder, mapped by everybody: a bell that rings at every commit (readers sleep on it in the kernel,
so waiting costs nothing and waking takes microseconds), and how far the commit log has been written and synced.
It only holds hints: after a crash of the machine it is made anew, and nothing depends on a ring being heard.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path

from headrace.log.embedded import futex

_SIZE = 4096


class _Page(ctypes.Structure):
    _fields_ = (
        ("rings", ctypes.c_uint32),
        ("catalog", ctypes.c_uint32),
        ("committed", ctypes.c_uint64),
        ("synced", ctypes.c_uint64),
        ("boot", ctypes.c_char * 40),
    )


def _boot() -> bytes:
    source = Path("/proc/sys/kernel/random/boot_id")
    return source.read_bytes().strip() if source.exists() else b""


class Bell:
    """`rings` counts commits; `committed` and `synced` are sequences; `catalog` counts changes of topics."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Real blocks, not a hole: on a full disk writing into a hole of a mapped file would kill the process.
            os.posix_fallocate(fd, 0, _SIZE)
            self._map = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        self.page = _Page.from_buffer(self._map)
        self._word = ctypes.c_uint32.from_buffer(self._map)  # the page's first field

    def settle(self, sequence: int) -> None:
        """Called under the write lock when the log is opened, with the sequence that the database really has."""
        if self.page.boot != _boot():
            # The machine was started since: what the page says was synced may have been lost with it.
            self.page.synced = 0
            self.page.boot = _boot()
        self.page.committed = sequence

    @property
    def rings(self) -> int:
        return self.page.rings

    def ring(self) -> None:
        """Wake everybody who waits, in all processes."""
        self.page.rings = (self.page.rings + 1) & 0xFFFFFFFF
        futex.wake(self._word)

    def wait(self, seen: int, seconds: float) -> int:
        """Sleep until the bell has rung since `seen` or the time is over; returns the count of rings."""
        deadline = time.monotonic() + seconds
        while self.page.rings == seen and (left := deadline - time.monotonic()) > 0:
            futex.wait(self._word, seen, left)
        return self.page.rings
