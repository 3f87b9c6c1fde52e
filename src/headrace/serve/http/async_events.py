"""Passes events of other threads to the event loop: a signal, and the rows of a push query."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from headrace.control.serving.push import PushSubscription
from headrace.control.serving.result_rows import ResultRow

MAX_ROWS = 500  # that are rendered at a time: the event loop does nothing else meanwhile


def thread_safe_setter(news: asyncio.Event) -> Callable[[], None]:
    """A function that sets the event from any thread. It must be created on the event loop."""
    loop = asyncio.get_running_loop()

    def notify() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(news.set)

    return notify


async def wait_for_event(news: asyncio.Event, seconds: float | None) -> bool:
    """Wait for the event; whether it was set in time. (Python's `wait_for` can miss a cancellation.)"""
    try:
        async with asyncio.timeout(seconds):
            return await news.wait()
    except TimeoutError:
        return False


async def subscription_rows(
    reader: PushSubscription, news: asyncio.Event, beat: float | None = None
) -> AsyncIterator[list[ResultRow]]:
    """The rows of a subscription, some at a time, until it ends; an empty list after so many seconds without rows."""
    while True:
        news.clear()
        ended = reader.ended
        while rows := reader.take(MAX_ROWS):
            yield rows
        if ended:
            return
        if not await wait_for_event(news, beat):
            yield []
