"""`/inserts-stream`: rows come as lines of JSON, and each is acknowledged by a line when it is durable.

The first line names the target. Lines that have come together are appended together; a row that cannot be taken is
told, and does not hold up the others. Over HTTP/2 rows and acknowledgements go both ways at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.control.inlets import Inlet
from headrace.control.node import Node
from headrace.errors import BadRequest, HeadraceError
from headrace.serve.ksql.refusals import refusal
from headrace.serve.ksql.shapes import ARRAY, LINES, OBJECTS

LONGEST = 16 << 20
"""Bytes of a line."""
AT_ONCE = 10_000
"""Lines that are appended together, or a few more."""
_EXAMPLE = 'the first line is {"target": "STREAM"}, each other one row: {"ID": 1, "NAME": "x"}'


def inserting(node: Node) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        parts = _lines(request)
        try:
            first, *rest = await anext(parts, [b""])
            inlet = await run_in_threadpool(node.inlet, _target(first))
        except HeadraceError as error:
            status, document = refusal(error)
            return Response(json.dumps(document), status, media_type=OBJECTS)
        return Acknowledging(inlet, rest, parts, as_array=ARRAY in request.headers.get("accept", ""))

    return answered


async def _lines(request: Request) -> AsyncIterator[list[bytes]]:
    """Whole lines, as many as have come."""
    left = b""
    try:
        async for part in request.stream():
            *lines, left = (left + part).split(b"\n")
            if found := [line for line in lines if line.strip()]:
                yield found
            if len(left) > LONGEST:
                raise BadRequest(f"a line is longer than {LONGEST} bytes", fix=_EXAMPLE)
    except ClientDisconnect:
        return
    if left.strip():
        yield [left]


async def _together(parts: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
    """What has come while the caller was busy, as one."""
    following = asyncio.ensure_future(anext(parts, None))
    try:
        while (lines := await following) is not None:
            following = asyncio.ensure_future(anext(parts, None))
            while len(lines) < AT_ONCE and (more := await _at_hand(following)):
                lines = lines + more
                following = asyncio.ensure_future(anext(parts, None))
            yield lines
    finally:
        following.cancel()


async def _at_hand(following: asyncio.Future[list[bytes] | None]) -> list[bytes] | None:
    """Nothing if it would be waited for; an error comes when it is."""
    await asyncio.sleep(0)
    return following.result() if following.done() and following.exception() is None else None


def _target(line: bytes) -> str:
    try:
        target = json.loads(line)["target"]
    except (ValueError, TypeError, KeyError) as error:
        raise BadRequest("the body does not begin with a target", fix=_EXAMPLE) from error
    return str(target)


class Acknowledging(Response):
    """Takes rows while it answers."""

    def __init__(self, inlet: Inlet, first: list[bytes], parts: AsyncIterator[list[bytes]], *, as_array: bool) -> None:
        super().__init__(media_type=ARRAY if as_array else LINES)
        del self.headers["content-length"]
        self._inlet, self._first, self._parts, self._as_array = inlet, first, parts, as_array
        self._number = 0
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for text in self._told():
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b"]" if self._as_array else b""})

    async def _told(self) -> AsyncIterator[bytes]:
        if self._as_array:
            yield b"["
        try:
            if self._first:
                yield await run_in_threadpool(self._taken, self._first)
            async for lines in _together(self._parts):
                yield await run_in_threadpool(self._taken, lines)
        except HeadraceError as error:  # a line without end, say
            yield self._text([json.dumps(refusal(error)[1]).encode()])

    def _taken(self, lines: list[bytes]) -> bytes:
        """Append what can be taken, and say what became of each."""
        failures = self._inlet.take(lines)
        told = [self._ack(self._number + number, failures.get(number)) for number in range(len(lines))]
        self._number += len(lines)
        return self._text(told)

    def _ack(self, number: int, failure: HeadraceError | None) -> bytes:
        if failure is None:
            return b'{"status":"ok","seq":%d}' % number
        return json.dumps({"status": "error", "seq": number, **refusal(failure)[1]}).encode()

    def _text(self, texts: list[bytes]) -> bytes:
        if not self._as_array:
            return b"".join(text + b"\n" for text in texts)
        begun, self._begun = self._begun, True
        return (b"," if begun else b"") + b",".join(texts)
