"""A bounded queue in front of the slots of one class of work, fair among principals.

Each principal has a queue of its own; a free slot goes to them in turn. One principal gets neither all slots nor the
whole queue. What does not fit is refused at once, and what has waited too long is refused then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headrace.errors import ServerBusy, TooManyRequests
from headrace.long_waits import LONG_WAITS, REPORT_SECONDS
from headrace.serve.admission.completion_rate import CompletionRate
from headrace.serve.admission.work_class import WorkClass, WorkLimits
from headrace.turn_queue import TurnQueue

_logger = logging.getLogger(__name__)
Waiter = asyncio.Future[None]


@dataclass
class WorkStatistics:
    """Totals of a class since the server started."""

    admitted: int = 0
    refused: int = 0
    wait_seconds: float = 0.0


class FairQueue:
    """Event loop only."""

    def __init__(self, work: WorkClass, limits: WorkLimits, now: Callable[[], float] = time.monotonic) -> None:
        self.work, self.limits = work, limits
        self.quota_of: Callable[[str], int] = lambda principal: 0
        """How much of the work one principal may have running and waiting; 0: no quota."""
        self.statistics = WorkStatistics()
        self._rate = CompletionRate(now)
        self._running = Counter[str]()
        self._waiting = TurnQueue[Waiter]()

    @property
    def running(self) -> int:
        return self._running.total()

    @property
    def queued(self) -> int:
        return len(self._waiting)

    def check(self, principal: str) -> None:
        """Refuse work that would find no place in the queue."""
        own = self._waiting.count(principal)
        if 0 < (quota := self.quota_of(principal)) <= own + self._running[principal]:
            what = f"{principal} has {quota} {self.work} requests already, its quota"
            raise self._refused(TooManyRequests(what, fix="wait for one of them to end"))
        if self._has_slot(principal):
            return
        if self.queued >= self.limits.queued:
            raise self._refused(ServerBusy(f"{self.queued} {self.work} requests wait already", fix=_LATER))
        if own >= self.limits.queued_each:
            what = f"{own} {self.work} requests of {principal} wait already"
            raise self._refused(TooManyRequests(what, fix="send fewer at once, and these again later"))

    @asynccontextmanager
    async def slot(self, principal: str, *, started: bool = False) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the block. Work of a response that has `started` is not refused."""
        if not started:
            self.check(principal)
        if not self.running:
            self._rate.restart()
        if not self._has_slot(principal):
            await self._wait(principal, None if started else self.limits.wait_seconds)
        else:
            self._running[principal] += 1
        self.statistics.admitted += 1
        try:
            yield
        finally:
            self._rate.add()
            self._release(principal)

    async def _wait(self, principal: str, seconds: float | None) -> None:
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(principal, waiter)
        began = time.monotonic()
        try:
            await self._wait_for_slot(waiter, principal, seconds)
        except asyncio.CancelledError:
            if waiter.done():
                self._release(principal)
            raise
        finally:
            self.statistics.wait_seconds += time.monotonic() - began
            if not waiter.done():
                self._waiting.discard(principal, waiter)
        if not waiter.done():
            what = f"the {self.work} request got no turn within {seconds:g} s"
            raise self._refused(ServerBusy(what, fix=_LATER))

    async def _wait_for_slot(self, waiter: Waiter, principal: str, seconds: float | None) -> None:
        """Wait for a slot, and report a wait of more than a second."""
        first = REPORT_SECONDS if seconds is None else min(REPORT_SECONDS, seconds)
        await asyncio.wait([waiter], timeout=first)
        if not waiter.done():
            holders = ", ".join(f"{name} ({count})" for name, count in self._running.most_common(3))
            with LONG_WAITS.waiting(f"{self.work} queue", principal, holders, since=first):
                await asyncio.wait([waiter], timeout=None if seconds is None else seconds - first)

    def _has_slot(self, principal: str) -> bool:
        return self.running < self.limits.running and self._running[principal] < self.limits.running_each

    def _release(self, principal: str) -> None:
        self._running[principal] -= 1
        if not self._running[principal]:
            del self._running[principal]
        while self._grant_next():
            pass

    def _grant_next(self) -> bool:
        """Give a free slot to the next principal that may have one."""
        if self.running >= self.limits.running:
            return False
        principal = self._waiting.next_user(lambda name: self._running[name] < self.limits.running_each)
        if principal is None:
            return False
        waiter = self._waiting.take(principal)
        self._running[principal] += 1
        waiter.set_result(None)
        return True

    def _refused(self, error: ServerBusy | TooManyRequests) -> ServerBusy | TooManyRequests:
        self.statistics.refused += 1
        error.seconds = self._rate.seconds_for(self.queued + 1)
        return error


_LATER = "send it again after the time in Retry-After"
