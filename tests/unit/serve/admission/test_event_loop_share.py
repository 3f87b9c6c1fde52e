"""Tests for headrace.serve.admission.event_loop_share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from headrace.access.authorization import Rights
from headrace.access.principal import Principal
from headrace.serve.admission.event_loop_share import EventLoopShare, EventLoopShareMiddleware

ALICE, BOB = "alice", "bob"


class Turns:
    """Takes turns that each use some time of a clock of its own; notes whose turn it was."""

    def __init__(self, milliseconds: float = 1.0) -> None:
        self.cost = milliseconds / 1000
        self.clock = 0.0
        self.share = EventLoopShare(lambda: self.clock)
        self.taken: list[str] = []

    async def take(self, principal: str) -> None:
        await self.share.turn(principal)
        self.clock += self.cost
        self.taken.append(principal)

    def begin(self, *principals: str) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.take(principal)) for principal in principals]


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


def test_turns_of_a_loop_that_is_not_busy_are_free() -> None:
    async def test() -> None:
        turns = Turns(milliseconds=0)
        tasks = turns.begin(*[ALICE] * 100)
        await asyncio.sleep(0)
        assert (len(turns.taken), turns.share.waiting) == (100, 0)
        await asyncio.gather(*tasks)

    run(test())


def test_a_principal_with_one_request_does_not_wait_for_the_many_of_another() -> None:
    async def test() -> None:
        turns = Turns()
        tasks = turns.begin(*[ALICE] * 100, BOB)
        await asyncio.gather(*tasks)
        assert turns.taken.count(ALICE) == 100
        assert turns.taken.index(BOB) < 10

    run(test())


def test_a_long_round_makes_the_next_one_shorter() -> None:
    async def test() -> None:
        turns = Turns(milliseconds=10)
        tasks = turns.begin(*[ALICE] * 50)
        rounds: list[int] = []
        while turns.share.waiting or not rounds:
            before = len(turns.taken)
            await asyncio.sleep(0)
            rounds.append(len(turns.taken) - before)
        await asyncio.gather(*tasks)
        assert max(rounds) <= 2
        assert len(turns.taken) == 50

    run(test())


def test_a_cancelled_request_takes_no_turn() -> None:
    async def test() -> None:
        turns = Turns(milliseconds=10)
        tasks = turns.begin(*[ALICE] * 10, BOB)
        await asyncio.sleep(0)
        tasks[-1].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(done[-1], asyncio.CancelledError)
        assert (turns.taken, turns.share.waiting) == ([ALICE] * 10, 0)

    run(test())


@pytest.mark.parametrize(("path", "is_free"), [("/healthcheck", True), ("/query-stream", False)])
def test_a_health_check_waits_for_nobody(path: str, is_free: bool) -> None:
    async def test() -> None:
        turns = Turns(milliseconds=10)
        answered: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            answered.append(scope["path"])

        scope = {"type": "http", "path": path, "rights": Rights(Principal(BOB), ())}
        tasks = turns.begin(*[ALICE] * 10)
        tasks.append(asyncio.create_task(EventLoopShareMiddleware(app, turns.share)(scope, None, None)))
        await asyncio.sleep(0)
        assert (answered == [path]) is is_free
        await asyncio.gather(*tasks)
        assert answered == [path]

    run(test())
