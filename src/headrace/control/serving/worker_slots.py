"""The slots of the pull workers: who may use a worker now, who waits for one, and who is refused.

Users take turns. While others wait, nobody gets more than half of the workers, rounded up, and nobody may have more
than a share of the places to wait. What does not fit is refused at once, and what has waited too long is refused then.
"""

from __future__ import annotations

import threading
from collections import Counter

from headrace.control.serving.processes import Process
from headrace.errors import QueryEnded, ServerBusy, TooManyRequests
from headrace.fair_share import exceeds_share
from headrace.lang.contract import ProcessState
from headrace.turn_queue import TurnQueue

_WAITING_PER_WORKER = 4
_WAIT_SECONDS = 10.0
"""How long a query waits for a free worker."""
_RETRY_SECONDS = 2.0
_FIX = "try again later, look up rows by their keys, or raise the setting query.pull_workers"


class _Waiter:
    """A query that waits; `woken` when it has got a slot, or has ended."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.has_slot = False


class WorkerSlots:
    """Thread-safe. A query that has taken a slot must release it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.Lock()
        self._running = Counter[str]()
        self._waiting = TurnQueue[_Waiter]()

    @property
    def running(self) -> int:
        """How many slots are taken."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """How many queries wait for a worker."""
        return len(self._waiting)

    def take(self, process: Process) -> None:
        """Wait for a slot, for a short time; raises if there is none, or if the query is killed meanwhile."""
        waiter = self._enter(process.principal)
        if waiter is None:
            return
        process.state = ProcessState.WAITING

        def end(reason: QueryEnded) -> None:
            del reason
            waiter.woken.set()

        process.on_kill(end)
        waiter.woken.wait(_WAIT_SECONDS)
        if not self._leave(process.principal, waiter):
            process.check()
            raise ServerBusy(
                f"no pull worker was free for a query that is no key lookup within {_WAIT_SECONDS:g} s", fix=_FIX
            )

    def release(self, principal: str) -> None:
        with self._lock:
            self._running[principal] -= 1
            if not self._running[principal]:
                del self._running[principal]
            self._grant()

    def _enter(self, principal: str) -> _Waiter | None:
        """Take a free slot, or a place to wait."""
        with self._lock:
            if self.running < self.count and not self._waiting:
                self._running[principal] += 1
                return None
            self._check_place(principal)
            waiter = _Waiter()
            self._waiting.add(principal, waiter)
            self._grant()
            return waiter

    def _check_place(self, principal: str) -> None:
        places, own = _WAITING_PER_WORKER * self.count, self._waiting.count(principal)
        if self.waiting >= places:
            raise ServerBusy(f"all {self.count} pull workers are busy, and {places} queries wait for one", fix=_FIX)
        if exceeds_share(own, self.waiting, places):
            error = TooManyRequests(f"{own} heavy pull queries of {principal} wait for a worker already", fix=_FIX)
            error.seconds = _RETRY_SECONDS
            raise error

    def _leave(self, principal: str, waiter: _Waiter) -> bool:
        """Give up the place; returns whether there is a slot instead."""
        with self._lock:
            if not waiter.has_slot:
                self._waiting.discard(principal, waiter)
            return waiter.has_slot

    def _grant(self) -> None:
        """Give the free slots to those who wait; the caller holds the lock."""
        while self.running < self.count and (principal := self._next()) is not None:
            waiter = self._waiting.take(principal)
            self._running[principal] += 1
            waiter.has_slot = True
            waiter.woken.set()

    def _next(self) -> str | None:
        """The user whose turn it is: one with less than its share, if there is any."""
        share = (self.count + 1) // 2
        within = self._waiting.next_user(lambda name: self._running[name] < share)
        return self._waiting.next_user() if within is None else within
