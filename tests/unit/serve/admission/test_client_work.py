"""The work for a client that goes away: before its turn, while it runs, and in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request

from headrace.control.serving.processes import Process, ProcessKind
from headrace.errors import QueryKilled
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.client_work import ClientWork
from headrace.serve.admission.work_class import WorkClass, WorkLimits

PATIENCE = 30.0


class Wire:
    """A connection; `cut` is when the client goes away."""

    def __init__(self) -> None:
        self.cut = asyncio.Event()

    async def receive(self) -> Any:
        await self.cut.wait()
        return {"type": "http.disconnect"}

    def request(self) -> Request:
        return Request({"type": "http", "method": "POST", "path": "/", "headers": []}, self.receive)


def admission() -> Admission:
    """Everything runs one by one."""
    return Admission({work: WorkLimits(1, 4) for work in WorkClass})


def ask(wire: Wire, works: Admission, do: Callable[[ClientWork], Any]) -> asyncio.Task[Any]:
    async def run() -> Any:
        with ClientWork(wire.request(), works, "alice") as client:
            return await client.run(WorkClass.PULL, lambda: do(client))

    return asyncio.create_task(run())


def process() -> Process:
    return Process(1, ProcessKind.PULL, "alice", "", 0)


def test_work_is_done_for_a_client_that_stays() -> None:
    async def main() -> None:
        assert await ask(Wire(), admission(), lambda client: 42) == 42

    asyncio.run(main())


def test_work_that_waits_is_cancelled_and_never_begins() -> None:
    async def main() -> None:
        works, free, begun, ran = admission(), threading.Event(), threading.Event(), []

        def block(client: ClientWork) -> bool:
            begun.set()
            return free.wait(PATIENCE)

        first, wire = ask(Wire(), works, block), Wire()
        await asyncio.to_thread(begun.wait, PATIENCE)
        second = ask(wire, works, lambda client: ran.append("second"))
        while not works.queues[WorkClass.PULL].queued:
            await asyncio.sleep(0)
        wire.cut.set()
        with pytest.raises(QueryKilled):
            await second
        while works.queues[WorkClass.PULL].queued:
            await asyncio.sleep(0)
        free.set()
        assert await first
        assert (works.queues[WorkClass.PULL].running, ran) == (0, [])

    asyncio.run(main())


def test_a_process_that_runs_is_killed() -> None:
    async def main() -> None:
        wire, killed, begun = Wire(), threading.Event(), threading.Event()

        def pull(client: ClientWork) -> None:
            one = process()
            client.begun(one)
            one.on_kill(lambda reason: killed.set())
            begun.set()
            assert killed.wait(PATIENCE)
            one.check()

        work = ask(wire, admission(), pull)
        await asyncio.to_thread(begun.wait, PATIENCE)
        wire.cut.set()
        with pytest.raises(QueryKilled):
            await work

    asyncio.run(main())


def test_a_process_that_begins_when_its_client_has_left_is_killed_at_once() -> None:
    async def main() -> None:
        wire, begun, left = Wire(), threading.Event(), threading.Event()

        def pull(client: ClientWork) -> None:
            begun.set()
            assert left.wait(PATIENCE)
            one = process()
            client.begun(one)
            one.check()

        work = ask(wire, admission(), pull)
        await asyncio.to_thread(begun.wait, PATIENCE)
        wire.cut.set()
        for _ in range(10):
            await asyncio.sleep(0)
        left.set()
        with pytest.raises(QueryKilled):
            await work

    asyncio.run(main())
