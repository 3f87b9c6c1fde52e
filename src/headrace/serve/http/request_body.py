"""Reads request bodies with limits on size and time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import ClientDisconnect, Request

from headrace.errors import BadRequest, BodyTooLarge, ServerBusy, TooManyRequests, UnknownContentType
from headrace.fair_share import exceeds_share

MAX_BODY_BYTES = 16 << 20
"""Maximum bytes of a body, by default."""
MAX_STATEMENTS_BYTES = 1 << 20
"""Maximum bytes of a body with statements."""
_IDLE_SECONDS = 30.0  # seconds in which a part of a body must arrive
_SLOWEST = 1024  # minimum bytes per second of a body, on average, after the first seconds


class BodyBudget:
    """Limits the bytes of all request bodies that the server holds at once, and those of one user. Event loop only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = Counter[str]()

    @contextmanager
    def share(self, user: str) -> Iterator[Callable[[int], None]]:
        """A function that reserves bytes for a user, or releases them by a negative count. The rest is released at the
        end of the block.
        """
        reserved = 0

        def take(count: int) -> None:
            nonlocal reserved
            if count > 0:
                self._check(user, count)
            self._held[user] += count
            reserved += count

        try:
            yield take
        finally:
            self._held[user] -= reserved
            if not self._held[user]:
                del self._held[user]

    def _check(self, user: str, count: int) -> None:
        held, own = self._held.total(), self._held[user]
        if held + count > self._most:
            raise ServerBusy(f"the server already holds {held} bytes of requests", fix="send it again later")
        if exceeds_share(own, held, self._most, count):
            what = f"the server already holds {own} bytes of requests of {user}"
            raise TooManyRequests(what, fix="send fewer at once, and this one again later")


class ArrivalTimer:
    """The time that a client has to send the rest of something: it may neither stall nor be too slow on average."""

    def __init__(self) -> None:
        self._waited = 0.0

    async def next(self, parts: AsyncIterator[bytes], received: int) -> bytes | None:
        """The next part of what has `received` bytes so far; None at the end."""
        now = asyncio.get_running_loop().time
        began = now()
        try:
            async with asyncio.timeout(_IDLE_SECONDS - max(0.0, self._waited - received / _SLOWEST)):
                return await anext(parts, None)
        except TimeoutError:
            what = f"the rest of the body did not arrive within {_IDLE_SECONDS:g} s"
            raise BadRequest(what, fix="send it again") from None
        finally:
            self._waited += now() - began


async def read_body(
    request: Request, most: int = MAX_BODY_BYTES, take: Callable[[int], None] = lambda count: None
) -> bytes:
    """Read a request's body. `take` is called with the size of each part, and may raise."""
    if (packed := request.headers.get("content-encoding", "identity")) != "identity":
        raise UnknownContentType(
            f'content encoding is not supported: "{packed[:80]}"', fix="send the body uncompressed"
        )
    received, parts, timer = bytearray(), request.stream(), ArrivalTimer()
    try:
        while (part := await timer.next(parts, len(received))) is not None:
            take(len(part))
            received += part
            if len(received) > most:
                raise BodyTooLarge(f"the body is larger than {most} bytes", fix="send it in parts")
    except ClientDisconnect:
        raise BadRequest("the client closed the connection", fix="send it again") from None
    return bytes(received)


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse the body as a JSON object. Strings may contain line breaks: people type statements."""
    try:
        document = json.loads(body, strict=False)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}", fix="send a JSON object") from None
    if not isinstance(document, dict):
        raise BadRequest("the body is not a JSON object", fix="send a JSON object")
    return document
