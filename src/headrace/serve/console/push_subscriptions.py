"""Subscriptions of the console to push queries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from headrace.control.serving.print_topic import TopicPrinter
from headrace.control.serving.push import PushQueries, PushSubscription
from headrace.plan.actions import TransientSelect
from headrace.serve.admission.quotas import open_stream
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext

RunOnThread = Callable[[Callable[[], PushSubscription]], Coroutine[Any, Any, PushSubscription]]


@asynccontextmanager
async def charged_stream(context: RequestContext) -> AsyncIterator[RunOnThread]:
    """Work for a push query, charged to the user's quotas."""
    with context.charged(WorkClass.PUSH) as charged, open_stream():
        yield charged.run


@asynccontextmanager
async def push_subscription(
    run: RunOnThread,
    pushes: PushQueries,
    params: TransientSelect | TopicPrinter,
    notify: Callable[[], None],
    *,
    from_beginning: bool,
) -> AsyncIterator[PushSubscription]:
    """Subscribe for the block. If the caller is cancelled while the thread is still subscribing, it is unsubscribed
    afterwards.
    """
    if isinstance(params, TopicPrinter):
        begin = partial(pushes.print, params, notify=notify)
    else:
        begin = partial(pushes.subscribe, params, from_beginning=from_beginning, notify=notify)
    begun = asyncio.ensure_future(run(begin))
    try:
        reader = await asyncio.shield(begun)
    except asyncio.CancelledError:
        begun.add_done_callback(lambda done: done.exception() or pushes.unsubscribe(done.result()))
        raise
    try:
        yield reader
    finally:
        pushes.unsubscribe(reader)
