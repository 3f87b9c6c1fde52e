"""Locks a program's folder for one process: two programs of the same name would write the same results.

It is a kernel lock, so it ends with the process, however that ends. The file names the process that holds it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Self

from headrace.errors import ProgramRunning
from headrace.log.embedded.storage.store import translate_errors
from headrace.private_folder import make_private


class ProgramLock:
    """`with ProgramLock(folder, "orders"):` raises if another process, or another program in this one, holds it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / "program.lock"
        with translate_errors(folder):
            make_private(folder)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise self._already_running(name) from None
        owner = {"pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps(owner).encode(), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _already_running(self, name: str) -> ProgramRunning:
        try:
            owner = json.loads(self._path.read_text())
            holder = f"process {owner['pid']}, since {owner['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            holder = "another process"
        return ProgramRunning(
            f'program "{name}" is already running: {holder}',
            where=str(self._path),
            fix="stop it first, or choose another name with --name",
        )
