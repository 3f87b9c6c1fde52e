"""Credentials are verified again while a response is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.serve.admission.admission import Admission
from headrace.serve.admission.work_class import WorkClass, WorkLimits
from headrace.serve.authentication import AuthenticationMiddleware
from tests.unit.serve.access.conftest import Place

ADDRESS = "203.0.113.7"
Send = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]


def test_a_response_waits_for_the_verification_of_its_token_and_is_not_refused(place: Place) -> None:
    asyncio.run(_streamed(place))


async def _streamed(place: Place) -> None:
    place.user("alice", "reader")
    guard = place.node.guard
    token = guard.make_token("alice")[0]
    admission = Admission(dict.fromkeys(WorkClass, WorkLimits(1, queued=1, wait_seconds=0.01)))
    queue, sent = admission.queues[WorkClass.AUTHENTICATION], list[dict[str, Any]]()

    async def app(scope: Any, receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        guard.tokens._known.clear()  # as after a minute
        async with queue.slot(ADDRESS):
            others = asyncio.create_task(_hold(queue))
            sending = asyncio.create_task(send({"type": "http.response.body", "body": b"row", "more_body": True}))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (queue.queued, sending.done()) == (2, False)
        await sending
        await others

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/x", "headers": headers, "client": (ADDRESS, 1)}
    await AuthenticationMiddleware(app, guard, admission, ())(scope, None, send)
    assert [message.get("body") for message in sent] == [None, b"row"]


async def _hold(queue: Any) -> None:
    """Fills the queue, so that other requests are refused."""
    async with queue.slot("another", started=True):
        pass
