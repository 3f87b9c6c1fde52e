"""New connections begin a few in each round of the event loop, in the order of their arrival."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.serve.http.connections import NewConnections
from headrace.serve.http.server import Server, dedicate_process
from tests.wait import wait_until

MANY = 30


async def answer_nothing(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


@pytest.fixture
def interpreter() -> Iterator[None]:
    """The settings of the whole process are as before, afterwards."""
    seconds, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(seconds)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_connections_that_arrive_together_begin_in_several_rounds_and_in_their_order() -> None:
    async def arrive() -> list[tuple[int, int]]:
        arrivals, begun, rounds = NewConnections(), list[tuple[int, int]](), 0
        for number in range(MANY):
            arrivals.begin(lambda number=number: begun.append((rounds, number)))
        while len(begun) < MANY:
            rounds += 1
            await asyncio.sleep(0)
        return begun

    begun = asyncio.run(arrive())
    assert [number for _, number in begun] == list(range(MANY))
    most = max(sum(round == one for round, _ in begun) for one, _ in begun)
    assert 1 < most < MANY / 4


def test_a_connection_that_arrives_alone_begins_at_once() -> None:
    async def arrive() -> list[str]:
        arrivals, begun = NewConnections(), list[str]()
        for name in ("first", "second"):
            arrivals.begin(lambda name=name: begun.append(name))
            assert begun[-1] == name
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return begun

    assert asyncio.run(arrive()) == ["first", "second"]


def test_all_of_many_connections_at_once_are_answered() -> None:
    with Server(answer_nothing).running() as server:
        wires = [socket.create_connection((server.host, server.port), timeout=10) for _ in range(MANY)]
        for number, wire in enumerate(wires):
            if number % 3:  # the others close before they have sent anything
                wire.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            else:
                wire.close()
        answers = [wire.recv(100) for number, wire in enumerate(wires) if number % 3]
        for wire in wires:
            wire.close()
    assert all(answer.startswith(b"HTTP/1.1 204") for answer in answers)


def test_what_a_connection_sends_waits_until_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []

    def hold(_: NewConnections, start: Callable[[], None]) -> None:
        waiting.append((asyncio.get_running_loop(), start))

    monkeypatch.setattr(NewConnections, "begin", hold)
    with (
        Server(answer_nothing).running() as server,
        socket.create_connection((server.host, server.port), timeout=10) as wire,
    ):
        wire.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: bool(waiting))
        wire.sendall(b"host: localhost\r\n\r\n")
        wire.settimeout(0.2)
        with pytest.raises(TimeoutError):
            wire.recv(100)
        wire.settimeout(10)
        loop, start = waiting[0]
        loop.call_soon_threadsafe(start)
        assert wire.recv(100).startswith(b"HTTP/1.1 204")


def test_a_process_that_serves_leaves_what_exists_out_of_garbage_collection(interpreter: None) -> None:
    dedicate_process()
    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold() > (700, 10, 10)
    assert sys.getswitchinterval() < 0.001
