"""Waiting on the event loop for events of other threads."""

from __future__ import annotations

import asyncio

import pytest

from headrace.serve.http.async_events import wait_for_event


@pytest.mark.parametrize("turns", range(5))
def test_a_stopped_waiter_ends_even_if_an_event_arrives_at_that_moment(turns: int) -> None:
    async def stopped() -> bool:
        news = asyncio.Event()

        async def wait_for_ever() -> None:
            while True:
                news.clear()
                await wait_for_event(news, 60)

        waiting = asyncio.ensure_future(wait_for_ever())
        await asyncio.sleep(0.01)
        news.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        done, _ = await asyncio.wait([waiting], timeout=5)
        return bool(done)

    assert asyncio.run(stopped())


def test_waiting_times_out() -> None:
    assert asyncio.run(wait_for_event(asyncio.Event(), 0.01)) is False
