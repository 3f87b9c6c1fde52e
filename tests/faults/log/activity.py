"""Shared memory in which a worker records its current operation, readable after it was killed.

Each lane (a thread of the worker) has a byte: 0 outside, else the number of the operation it is inside of. The kernel
keeps the page when the process dies, so what the killer reads afterwards is exactly where the kill landed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

OPERATIONS = ("", "send", "append", "write", "poll", "commit", "take", "ack", "upkeep", "copy", "count")
_LANES, _SIZE = 8, 4096


class ActivityPage:
    """The page of one life; byte `_LANES` says that the worker is at work."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.truncate(fd, _SIZE)
        self._page = mmap.mmap(fd, _SIZE)
        os.close(fd)

    @contextlib.contextmanager
    def inside(self, operation: str, lane: int = 0) -> Iterator[None]:
        self._page[lane] = OPERATIONS.index(operation)
        try:
            yield
        finally:
            self._page[lane] = 0
            self._page[_LANES] = 1

    @property
    def at_work(self) -> bool:
        """Whether a first operation was finished."""
        return self._page[_LANES] != 0

    @property
    def operation(self) -> str:
        """The operation the worker is, or died, inside of."""
        return next((OPERATIONS[code] for code in self._page[:_LANES] if code), "")
