"""News of other threads for who waits on the loop: that something has come, and the rows of a question that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from headrace.control.pushes import Subscription
from headrace.plan.answers.rows import Row


def notifier(news: asyncio.Event) -> Callable[[], None]:
    """A function that sets the event, from any thread. To be made on the loop."""
    loop = asyncio.get_running_loop()

    def notify() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(news.set)

    return notify


async def heard(news: asyncio.Event, seconds: float | None) -> bool:
    """Whether it was set in time. (Python's `wait_for` would at times not notice that the waiting is cancelled.)"""
    try:
        async with asyncio.timeout(seconds):
            return await news.wait()
    except TimeoutError:
        return False


async def rows_of(reader: Subscription, news: asyncio.Event, beat: float | None = None) -> AsyncIterator[list[Row]]:
    """What comes, as much as has come, until it ends; after so many seconds without anything, nothing."""
    while True:
        news.clear()
        ended, rows = reader.ended, reader.take()
        if rows:
            yield rows
        if ended:
            return
        if not await heard(news, beat):
            yield []
