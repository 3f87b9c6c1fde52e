"""Threads that give way to the one that serves."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace import background_work
from headrace.background_work import NICENESS, computing, give_way

THREADS = 12


def in_thread(do: Callable[[], int]) -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(do).result(10)


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have priorities of processes only")
def test_a_thread_gives_way_and_no_other_does() -> None:
    before = niceness()

    def twice() -> int:
        give_way()
        give_way()
        return niceness()

    assert in_thread(twice) == before + NICENESS
    assert niceness() == before
    assert in_thread(niceness) == before


def test_few_threads_compute_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_work, "_slots", threading.Semaphore(2))
    lock, now, most, done = threading.Lock(), 0, 0, 0

    def compute(_: int) -> None:
        nonlocal now, most, done
        with computing():
            with lock:
                now, most = now + 1, max(most, now + 1)
            time.sleep(0.005)
            with lock:
                now, done = now - 1, done + 1

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(compute, range(3 * THREADS)))
    assert (done, now) == (3 * THREADS, 0)
    assert most <= 2


def test_computing_goes_on_when_no_slot_gets_free(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = threading.Semaphore(1)
    monkeypatch.setattr(background_work, "_slots", slots)
    monkeypatch.setattr(background_work, "_MAX_WAIT", 0.01)
    with computing():
        assert in_thread(nested) == 1
        assert not slots.acquire(blocking=False)  # the block that waited in vain has given back no slot
    assert slots.acquire(blocking=False)


def nested() -> int:
    with computing():
        return 1


def test_a_slot_is_given_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = threading.Semaphore(1)
    monkeypatch.setattr(background_work, "_slots", slots)
    with pytest.raises(ValueError, match="broken"), computing():
        raise ValueError("broken")
    assert slots.acquire(blocking=False)
