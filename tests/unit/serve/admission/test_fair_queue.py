from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from headrace.errors import ServerBusy, TooManyRequests
from headrace.serve.admission.fair_queue import FairQueue
from headrace.serve.admission.work_class import WorkClass, WorkLimits

ALICE, BOB = "alice", "bob"


def queue(running: int = 2, queued: int = 4, wait_seconds: float = 60.0) -> FairQueue:
    return FairQueue(WorkClass.PULL, WorkLimits(running, queued, wait_seconds))


class Work:
    """Holds slots of a queue until it is told to end; notes in which order it began."""

    def __init__(self, held: FairQueue) -> None:
        self.queue = held
        self.began: list[str] = []
        self.end = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, principal: str, *, started: bool = False) -> asyncio.Task[None]:
        task = asyncio.create_task(self._hold(principal, started))
        self.tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def _hold(self, principal: str, started: bool) -> None:
        async with self.queue.slot(principal, started=started):
            self.began.append(principal)
            await self.end.wait()

    async def finish(self) -> None:
        self.end.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert (self.queue.running, self.queue.queued) == (0, 0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


def test_one_principal_leaves_a_slot_to_the_others() -> None:
    async def test() -> None:
        work = Work(queue(running=2))
        for principal in (ALICE, ALICE, BOB):
            await work.begin(principal)
        assert (work.began, work.queue.queued) == ([ALICE, BOB], 1)
        await work.finish()

    run(test())


def test_principals_take_turns_however_many_requests_one_of_them_has() -> None:
    async def test() -> None:
        work = Work(queue(running=1, queued=10))
        for principal in (ALICE, ALICE, ALICE, ALICE, BOB):
            await work.begin(principal)
        await work.finish()
        assert work.began == [ALICE, ALICE, BOB, ALICE, ALICE]

    run(test())


def test_a_principal_over_its_share_of_the_queue_is_refused_and_others_are_not() -> None:
    async def test() -> None:
        work = Work(queue(running=1, queued=4))
        for _ in range(3):
            await work.begin(ALICE)
        with pytest.raises(TooManyRequests, match="2 pull requests of alice wait already"):
            await work.queue.slot(ALICE).__aenter__()
        await work.begin(BOB)
        assert (work.queue.queued, work.queue.statistics.refused) == (3, 1)
        await work.finish()

    run(test())


def test_a_principal_at_its_quota_is_refused_although_there_is_room() -> None:
    async def test() -> None:
        limited = FairQueue(WorkClass.PULL, WorkLimits(8))
        limited.quota_of = {ALICE: 1, BOB: 0}.__getitem__
        work = Work(limited)
        await work.begin(ALICE)
        with pytest.raises(TooManyRequests, match="its quota"):
            work.queue.check(ALICE)
        await work.begin(ALICE, started=True)
        await work.begin(BOB)
        assert work.began == [ALICE, ALICE, BOB]
        await work.finish()

    run(test())


def test_a_full_queue_refuses_everybody_at_once() -> None:
    async def test() -> None:
        work = Work(queue(running=1, queued=2))
        for principal in (ALICE, ALICE, BOB):
            await work.begin(principal)
        with pytest.raises(ServerBusy, match="2 pull requests wait already"):
            work.queue.check("carol")
        await work.finish()

    run(test())


def test_a_request_that_waits_too_long_is_refused() -> None:
    async def test() -> None:
        work = Work(queue(running=1, wait_seconds=0.01))
        await work.begin(ALICE)
        with pytest.raises(ServerBusy, match="got no turn within"):
            await work.queue.slot(BOB).__aenter__()
        assert work.queue.queued == 0
        await work.finish()

    run(test())


def test_a_response_that_has_started_is_not_refused() -> None:
    async def test() -> None:
        work = Work(queue(running=1, queued=0, wait_seconds=0))
        await work.begin(ALICE)
        await work.begin(BOB, started=True)
        await work.finish()
        assert work.began == [ALICE, BOB]

    run(test())


def test_who_leaves_while_waiting_gives_up_the_place_also_when_its_turn_has_just_come() -> None:
    async def test() -> None:
        work = Work(queue(running=1))
        first = await work.begin(ALICE)
        waiting, next_one = await work.begin(BOB), await work.begin("carol")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert work.queue.queued == 1
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)  # the slot is carol's now
        next_one.cancel()
        await asyncio.gather(next_one, return_exceptions=True)
        await work.finish()

    run(test())


def test_a_refusal_says_when_there_will_be_room() -> None:
    async def test() -> None:
        now = 0.0
        slow = FairQueue(WorkClass.PULL, WorkLimits(1, 2), lambda: now)
        work = Work(slow)
        for _ in range(2):
            await work.begin(ALICE)
        now = 10.0  # and nothing was completed
        with pytest.raises(TooManyRequests) as refused:
            slow.check(ALICE)
        assert refused.value.seconds == 20
        await work.finish()

    run(test())
