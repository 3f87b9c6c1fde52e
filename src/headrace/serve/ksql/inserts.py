"""`/inserts-stream`: rows come as lines of JSON, and each is acknowledged by a line when it is durable.

The first line names the target. Lines that have come together are appended together; a row that cannot be taken is
told, and does not hold up the others. Over HTTP/2 rows and acknowledgements go both ways at once. Lines are in the room
for bodies until they are appended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.control.inlets import Inlet
from headrace.control.node import Node
from headrace.errors import BadRequest, HeadraceError
from headrace.serve.authentication import noted, rights_of
from headrace.serve.bodies import Room
from headrace.serve.ksql.refusals import refusal
from headrace.serve.ksql.shapes import ARRAY, LINES, OBJECTS

LONGEST = 16 << 20
"""Bytes of a line."""
AT_ONCE, BYTES_AT_ONCE = 10_000, 4 << 20
"""Lines that are appended together, and their bytes, or a few more."""
Take = Callable[[int], None]
"""From the room, or with a count below 0 back to it."""
_EXAMPLE = 'the first line is {"target": "STREAM"}, each other one row: {"ID": 1, "NAME": "x"}'


def inserting(node: Node, room: Room) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        return Inserting(node, room, request)

    return answered


class Inserting(Response):
    """All of it in one share of the room: rows come after the answer has begun."""

    def __init__(self, node: Node, room: Room, request: Request) -> None:
        super().__init__()
        self._node, self._room, self._request = node, room, request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._room.share() as take:
            answer = await self._begun(take)
            await answer(scope, receive, send)

    async def _begun(self, take: Take) -> Response:
        node, request = self._node, self._request
        parts = _lines(request.stream(), take)
        try:
            first, *rest = await anext(parts, [b""])
            take(-len(first))
            inlet = await run_in_threadpool(partial(node.inlet, _target(first), rights=rights_of(request)))
        except HeadraceError as error:
            await noted(node.guard, request, error)
            status, document = refusal(error)
            return Response(json.dumps(document), status, media_type=OBJECTS)
        return Acknowledging(inlet, rest, parts, take, as_array=ARRAY in request.headers.get("accept", ""))


async def _lines(stream: AsyncIterator[bytes], take: Take) -> AsyncIterator[list[bytes]]:
    """Whole lines, as many as have come; what they hold is taken."""
    left = bytearray()  # it grows in place: a line may come byte by byte
    try:
        async for part in stream:
            take(len(part))
            whole, end, rest = part.rpartition(b"\n")
            if end:
                lines = b"".join((left, whole)).split(b"\n")
                found = [line for line in lines if line.strip()]
                take(_size(found) + len(rest) - len(left) - len(part))
                left = bytearray(rest)
                if found:
                    yield found
            else:
                left += part
            if len(left) > LONGEST:
                raise BadRequest(f"a line is longer than {LONGEST} bytes", fix=_EXAMPLE)
    except ClientDisconnect:
        return
    if left.strip():
        yield [bytes(left)]


def _size(lines: list[bytes]) -> int:
    return sum(map(len, lines))


async def _together(parts: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
    """What has come while the caller was busy, as one."""
    following = asyncio.ensure_future(anext(parts, None))
    try:
        while (lines := await following) is not None:
            following = asyncio.ensure_future(anext(parts, None))
            size = _size(lines)
            while len(lines) < AT_ONCE and size < BYTES_AT_ONCE and (more := await _at_hand(following)):
                lines, size = lines + more, size + _size(more)
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
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadRequest("the body does not begin with a target", fix=_EXAMPLE) from error
    return str(target)


class Acknowledging(Response):
    """Takes rows while it answers."""

    def __init__(
        self, inlet: Inlet, first: list[bytes], parts: AsyncIterator[list[bytes]], take: Take, *, as_array: bool
    ) -> None:
        super().__init__(media_type=ARRAY if as_array else LINES)
        del self.headers["content-length"]
        self._inlet, self._first, self._parts, self._take, self._as_array = inlet, first, parts, take, as_array
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
                yield await self._appended(self._first)
            async for lines in _together(self._parts):
                yield await self._appended(lines)
        except HeadraceError as error:  # a line without end, say
            yield self._text([json.dumps(refusal(error)[1]).encode()])

    async def _appended(self, lines: list[bytes]) -> bytes:
        told = await run_in_threadpool(self._taken, lines)
        self._take(-_size(lines))
        return told

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
