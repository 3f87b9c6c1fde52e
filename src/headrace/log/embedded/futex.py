"""Sleeping on a word of shared memory until somebody changes it: the kernel's futex, or polling where there is none."""

from __future__ import annotations

import ctypes
import platform
import time

_CALL = {"x86_64": 202, "aarch64": 98}.get(platform.machine()) if platform.system() == "Linux" else None
_libc = ctypes.CDLL(None, use_errno=True) if _CALL else None
_WAIT, _WAKE, _EVERYBODY = 0, 1, 2**31 - 1
_POLL = 0.002


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def wait(word: ctypes.c_uint32, seen: int, seconds: float) -> None:
    """Sleep while the word is `seen`, at most so long; may return early."""
    if _libc is None:
        time.sleep(min(_POLL, seconds))
        return
    limit = _Timespec(int(seconds), int(seconds % 1 * 1e9))
    _libc.syscall(_CALL, ctypes.byref(word), _WAIT, ctypes.c_uint32(seen), ctypes.byref(limit), None, 0)


def wake(word: ctypes.c_uint32) -> None:
    """Wake everybody, in all processes, who sleeps on the word."""
    if _libc is not None:
        _libc.syscall(_CALL, ctypes.byref(word), _WAKE, _EVERYBODY, None, None, 0)
