"""Streams pages as server-sent events or as WebSocket messages.

A page has its text in both forms. An error before the first page is an ordinary error response. A later error is the
last event (`error`) or the last message (`{"error": {...}}`). A client that disconnects, or whose socket stalls for too
long, is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

import orjson
from starlette.responses import Response
from starlette.websockets import WebSocket

from headrace.errors import HeadraceError
from headrace.serve.admission.quotas import open_stream
from headrace.serve.api.errors import error_document, error_headers, http_status, to_headrace_error

EVENT_STREAM_TYPE = "text/event-stream"
STALL_TIMEOUT = 30.0
"""Seconds that a socket may stall."""


MessageStream = AsyncGenerator[Any, None]
"""A stream of pages, each with its text as an `event` (bytes) and as a `message`."""


async def counted(pages: MessageStream) -> MessageStream:
    """The same pages; the stream counts towards the quota of its user until it ends."""
    with open_stream():
        async with aclosing(pages):
            async for page in pages:
                yield page


async def event_stream(pages: MessageStream) -> Response:
    first = await anext(pages)  # so that an error becomes an error response and not an event
    return EventStream(_events(first, pages))


async def _events(first: Any, pages: MessageStream) -> AsyncGenerator[bytes, None]:
    yield first.event
    try:
        async with aclosing(pages):
            async for page in pages:
                yield page.event
    except Exception as error:
        yield b"event: error\ndata: " + orjson.dumps(error_document(to_headrace_error(error))) + b"\n\n"


class EventStream(Response):
    """Sends events until they end, the client disconnects, or its socket stalls."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(media_type=EVENT_STREAM_TYPE, headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def disconnected() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async def work() -> None:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with aclosing(self._events):
                async for event in self._events:
                    await _in_time(send({"type": "http.response.body", "body": event, "more_body": True}))
            await send({"type": "http.response.body", "body": b""})

        await _until_disconnected(work(), disconnected())


async def socket_stream(socket: WebSocket, begin: Callable[[], Awaitable[MessageStream]]) -> None:
    try:
        pages = await begin()
        first = await anext(pages)
    except HeadraceError as error:
        status = http_status(error)
        refused = Response(
            orjson.dumps(error_document(error)), status, error_headers(status, error), "application/json"
        )
        await socket.send_denial_response(refused)
        return
    await socket.accept()
    await _until_disconnected(_talk(socket, first, pages), _disconnected(socket))


async def _talk(socket: WebSocket, first: Any, pages: MessageStream) -> None:
    await socket.send_text(first.message)
    try:
        async with aclosing(pages):
            async for page in pages:
                await _in_time(socket.send_text(page.message))
    except TimeoutError:
        raise
    except Exception as error:
        await socket.send_text(orjson.dumps({"error": error_document(to_headrace_error(error))}).decode())
        await socket.close(1011)


async def _disconnected(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _in_time(sending: Awaitable[None]) -> None:
    async with asyncio.timeout(STALL_TIMEOUT):
        await sending


async def _until_disconnected(work: Coroutine[Any, Any, None], disconnected: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(disconnected)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, TimeoutError):
                await task
