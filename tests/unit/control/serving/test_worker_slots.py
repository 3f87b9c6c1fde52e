"""Who gets a pull worker: in turns, with a share per user, and a bounded number that wait."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from headrace.control.serving import worker_slots
from headrace.control.serving.processes import Process, ProcessKind
from headrace.control.serving.worker_slots import WorkerSlots
from headrace.errors import HeadraceError, QueryKilled, ServerBusy, TooManyRequests
from headrace.lang.contract import ProcessState
from tests.wait import wait_until

_NUMBERS = itertools.count(1)


def process(user: str) -> Process:
    return Process(next(_NUMBERS), ProcessKind.PULL, user, "", 0)


class Queue:
    """Queries that wait, each in a thread; `got` are the users whose turn it was, `refused` the errors."""

    def __init__(self, slots: WorkerSlots) -> None:
        self.slots = slots
        self.got: list[str] = []
        self.refused: list[HeadraceError] = []

    def wait(self, user: str) -> Process:
        one = process(user)

        def run() -> None:
            try:
                self.slots.take(one)
                self.got.append(user)
            except HeadraceError as error:
                self.refused.append(error)

        before = self.slots.waiting
        threading.Thread(target=run, daemon=True).start()
        wait_until(lambda: self.slots.waiting > before)
        assert one.state is ProcessState.WAITING
        return one

    def release(self, user: str, until: Callable[[], bool]) -> None:
        self.slots.release(user)
        wait_until(until)


def test_users_take_turns_and_others_come_before_one_with_its_share() -> None:
    slots = WorkerSlots(2)
    for _ in range(2):
        slots.take(process("alice"))  # nobody else waits
    queue = Queue(slots)
    for user in ("alice", "alice", "bob", "carol"):
        queue.wait(user)
    queue.release("alice", lambda: queue.got == ["bob"])
    queue.release("alice", lambda: queue.got == ["bob", "alice"])
    queue.release("bob", lambda: queue.got == ["bob", "alice", "carol"])
    queue.release("carol", lambda: queue.got == ["bob", "alice", "carol", "alice"])
    assert (slots.running, slots.waiting) == (2, 0)


def test_one_user_gets_half_of_the_places_to_wait() -> None:
    slots = WorkerSlots(1)
    slots.take(process("alice"))
    queue = Queue(slots)
    for _ in range(2):
        queue.wait("alice")
    with pytest.raises(TooManyRequests) as raised:
        slots.take(process("alice"))
    assert raised.value.seconds > 0
    for user in ("bob", "carol"):
        queue.wait(user)
    with pytest.raises(ServerBusy):
        slots.take(process("dave"))


def test_a_query_that_is_killed_gives_up_its_place() -> None:
    slots = WorkerSlots(1)
    slots.take(process("alice"))
    queue = Queue(slots)
    killed = queue.wait("bob")
    killed.kill(QueryKilled("the query was ended", fix="-"))
    wait_until(lambda: bool(queue.refused))
    assert [error.code for error in queue.refused] == ["query-killed"]
    assert slots.waiting == 0
    slots.release("alice")
    assert slots.running == 0


def test_a_query_that_has_waited_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_slots, "_WAIT_SECONDS", 0.0)
    slots = WorkerSlots(1)
    slots.take(process("alice"))
    with pytest.raises(ServerBusy):
        slots.take(process("bob"))
    assert slots.waiting == 0
