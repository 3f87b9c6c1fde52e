"""Lets work in threads give way to the thread that serves requests.

Threads share the interpreter's lock and the cores. With many busy ones, the thread that serves waits for most of them
each time it needs the lock again, which is several times for each request. So only a few compute at the same time, and
all have a lower priority of the operating system, which Linux gives each thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

NICENESS = 5
_MAX_WAIT = 1.0  # seconds after which work goes on in any case
_local = threading.local()
_slots = threading.Semaphore(max(1, (os.cpu_count() or 1) // 2))


def give_way() -> None:
    """Lower the priority of the calling thread, once. Processes that it starts inherit this."""
    if sys.platform == "linux" and not getattr(_local, "gives_way", False):
        _local.gives_way = True
        with suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)


@contextmanager
def computing() -> Iterator[None]:
    """Compute, but not wait, within the block: few threads do so at the same time."""
    has_slot = _slots.acquire(timeout=_MAX_WAIT)
    try:
        yield
    finally:
        if has_slot:
            _slots.release()
