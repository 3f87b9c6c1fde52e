"""Temporary folders for programs that do not clean up when they are killed.

Creating one removes those that dead processes left behind; a kernel lock shows whose owner is still alive.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "headrace-scratch-"


class ScratchDirectory:
    def __init__(self) -> None:
        _sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._fd = os.open(self.folder / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        (self.folder / "new").rename(self.folder / "lock")  # visible to others only once it is locked

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._fd)
            self._fd = -1


def _sweep() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/lock"):
        with suppress(OSError):  # it is in use, being removed by another process, or another user's
            fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(fd)
