"""Folders that only their owner can enter, whatever the umask: the data folder and everything like it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_OWNER_ONLY = 0o700


def make_private(folder: Path) -> Path:
    """Create a folder, and those above it that are missing, for its owner only; an existing one is not changed."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    return folder


def close_to_others(folder: Path) -> None:
    """Remove the access of group and others from a folder of this user."""
    if folder.stat().st_uid == os.geteuid():
        with suppress(PermissionError, NotImplementedError):  # of a file system without modes
            folder.chmod(_OWNER_ONLY)


def open_to_others(path: Path) -> str:
    """The mode of a file or folder to which group or others have access, for example `drwxr-xr-x`; else nothing."""
    mode = path.stat().st_mode
    return stat.filemode(mode) if mode & 0o077 else ""
