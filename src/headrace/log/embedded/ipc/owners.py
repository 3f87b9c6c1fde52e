"""Liveness of processes: each writing process locks a small file of its own; the kernel releases it at death."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path


class Owner:
    """This process as a writer of files, while it is alive."""

    def __init__(self, folder: Path) -> None:
        self.id = secrets.token_hex(6)
        self._path = folder / f"{self.id}.lock"
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def is_alive(folder: Path, owner: str) -> bool:
    """Whether the process with that id still runs; removes the file of a dead one."""
    path = folder / f"{owner}.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        path.unlink(missing_ok=True)
        return False
    finally:
        os.close(fd)
