from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest

from headrace.errors import ServerBusy
from headrace.long_waits import LONG_WAITS
from headrace.watched_lock import WatchedLock
from tests.wait import wait_until


@contextmanager
def held_elsewhere(lock: WatchedLock) -> Iterator[Event]:
    """Another thread holds the lock until the event is set."""
    taken, until = Event(), Event()

    def hold() -> None:
        lock.take("the holder")
        taken.set()
        until.wait(30)
        lock.give()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        taken.wait(30)
        try:
            yield until
        finally:
            until.set()


def test_a_long_wait_is_counted_and_shown_while_it_lasts() -> None:
    lock = WatchedLock("lock of this test", report_after=0.01)
    with held_elsewhere(lock) as until, ThreadPoolExecutor(1) as pool:

        def wait() -> None:
            lock.take("the waiter")
            lock.give()

        waiting = pool.submit(wait)
        wait_until(lambda: any(wait.what == lock.name for wait in LONG_WAITS.current()))
        (shown,) = (wait for wait in LONG_WAITS.current() if wait.what == lock.name)
        assert (shown.waiter, shown.holder) == ("the waiter", "the holder")
        until.set()
        waiting.result(30)
    assert LONG_WAITS.statistics()[lock.name].count == 1
    assert LONG_WAITS.statistics()[lock.name].max_seconds >= 0.01
    assert lock.holder == ""


def test_no_wait_is_endless() -> None:
    lock = WatchedLock("another lock", report_after=0.01, timeout=0.05)
    with held_elsewhere(lock), pytest.raises(ServerBusy, match="another lock") as refused, lock:
        pass
    assert "the holder" not in str(refused.value)  # it may be the statement of another user


def test_the_holder_may_take_it_again() -> None:
    lock = WatchedLock("a third lock")
    with lock:
        lock.take("a part of it")
        assert lock.holder == "a part of it"
        lock.give()
        assert lock.holder != ""


def test_a_short_wait_is_not_reported() -> None:
    with WatchedLock("a lock that is free"):
        assert "a lock that is free" not in LONG_WAITS.statistics()
