"""The result of a heavy pull query on its way from the worker to the client.

A worker is free as soon as it has computed a result: what a slow client has not read yet is stored in memory, and
beyond a few hundred kilobytes in a temporary file. The file has no name, so it is gone with the server, however that
ends. If there is no room for more, the worker waits for the client.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple

from headrace.fair_share import exceeds_share

MEMORY_BYTES = 256 << 10
"""Bytes of a result that are stored in memory."""
FILE_BYTES = 1 << 30
"""Bytes of all results that are stored in files."""


class SpoolBudget:
    """The room for the files of all results, which users share. Thread-safe."""

    def __init__(self, limit: int = FILE_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._used = Counter[str]()

    @property
    def used(self) -> int:
        return self._used.total()

    def take(self, principal: str, size: int) -> bool:
        """Whether there is room."""
        with self._lock:
            if self.used + size > self._limit or exceeds_share(self._used[principal], self.used, self._limit, size):
                return False
            self._used[principal] += size
            return True

    def give_back(self, principal: str, size: int) -> None:
        with self._lock:
            self._used[principal] -= size
            if not self._used[principal]:
                del self._used[principal]


class _InFile(NamedTuple):
    """A part that is stored in the file."""

    offset: int
    size: int


class ResultSpool:
    """Parts of one result, first in, first out. One thread puts, another gets, any closes."""

    def __init__(self, folder: Path, budget: SpoolBudget, principal: str) -> None:
        self._folder, self._budget, self._principal = folder, budget, principal
        self._changed = threading.Condition()
        self._parts: deque[bytes | _InFile] = deque()
        self._in_memory = self._in_file = 0
        """Bytes of the parts in memory, and number of those in the file."""
        self._file: int | None = None
        self._file_size = 0
        self._has_ended = self._is_closed = False
        self._failure: Exception | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nobody reads it any more."""
        return self._is_closed

    # -- the worker's side ------------------------------------------------------------------------------------------

    def put(self, part: bytes, deadline: float) -> bool:
        """Store a part; without room, wait for the client until the deadline. False if the client has gone away."""
        seconds = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_closed or self._store(part), seconds):
                raise TimeoutError
            self._changed.notify_all()
            return not self._is_closed

    def _store(self, part: bytes) -> bool:
        """Whether there was room: a client that has read everything gets any part."""
        if not self._parts or self._in_memory + len(part) <= MEMORY_BYTES:
            self._parts.append(part)
            self._in_memory += len(part)
            return True
        if not self._budget.take(self._principal, len(part)):
            return False
        try:
            self._write(part)
        except OSError:  # the disk is full: as if there was no room
            self._budget.give_back(self._principal, len(part))
            return False
        self._parts.append(_InFile(self._file_size, len(part)))
        self._file_size += len(part)
        self._in_file += 1
        return True

    def _write(self, part: bytes) -> None:
        if self._file is None:
            with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:  # without a name, mode 0600
                self._file = os.dup(file.fileno())
        written = 0
        while written < len(part):
            written += os.pwrite(self._file, memoryview(part)[written:], self._file_size + written)

    def end(self, failure: Exception | None = None) -> None:
        """No further part follows; the reader gets what is stored, then the failure."""
        with self._changed:
            self._has_ended = True
            self._failure = self._failure or failure
            self._changed.notify_all()

    # -- the client's side ------------------------------------------------------------------------------------------

    def take(self) -> bytes | None:
        """The next part, None at the end. The worker's side ends it in any case, so this wait is bounded."""
        with self._changed:
            self._changed.wait_for(lambda: self._parts or self._has_ended or self._is_closed)
            if self._is_closed or not self._parts:
                if self._failure is not None:
                    raise self._failure
                return None
            part = self._taken(self._parts.popleft())
            self._changed.notify_all()
            return part

    def _taken(self, part: bytes | _InFile) -> bytes:
        if not isinstance(part, _InFile):
            self._in_memory -= len(part)
            return part
        assert self._file is not None
        content = os.pread(self._file, part.size, part.offset)
        self._in_file -= 1
        if not self._in_file:
            self._free_file()
        return content

    def fail(self, failure: Exception) -> None:
        """End it at once: the reader gets the failure instead of what is stored."""
        with self._changed:
            self._failure, self._is_closed = failure, True
            self._drop()

    def close(self) -> None:
        """Drop what is stored, when the client has read enough."""
        with self._changed:
            self._is_closed = True
            self._drop()

    def _drop(self) -> None:
        self._parts.clear()
        self._in_memory = self._in_file = 0
        self._free_file()
        self._changed.notify_all()

    def _free_file(self) -> None:
        """Delete the file; a later part creates another one."""
        if self._file is not None:
            os.close(self._file)
            self._budget.give_back(self._principal, self._file_size)
            self._file, self._file_size = None, 0
