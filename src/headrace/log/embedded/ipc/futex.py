"""Sleep on a word of shared memory until another process changes it: a futex, or polling where there is none."""

from __future__ import annotations

import ctypes
import platform
import time

_CALL = {"x86_64": 202, "aarch64": 98}.get(platform.machine()) if platform.system() == "Linux" else None
_libc = ctypes.CDLL(None, use_errno=True) if _CALL else None
_WAIT, _WAKE, _EVERYBODY = 9, 10, 2**31 - 1  # of the futex operations with bit sets
_POLL = 0.002
ANY = 0xFFFFFFFF


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def wait(word: ctypes.c_uint32, seen: int, seconds: float, bits: int = ANY) -> None:
    """Sleep while the word is `seen`, until a wake with one of the bits or the timeout; may return early."""
    if _libc is None:
        time.sleep(min(_POLL, seconds))
        return
    until = time.monotonic() + seconds
    limit = _Timespec(int(until), int(until % 1 * 1e9))
    at, seen_, bits_ = ctypes.byref(word), ctypes.c_uint32(seen), ctypes.c_uint32(bits)
    _libc.syscall(_CALL, at, _WAIT, seen_, ctypes.byref(limit), None, bits_)


def wake(word: ctypes.c_uint32, bits: int = ANY) -> None:
    """Wake all sleepers on the word with one of the bits, in all processes."""
    if _libc is not None:
        _libc.syscall(_CALL, ctypes.byref(word), _WAKE, _EVERYBODY, None, None, ctypes.c_uint32(bits))
