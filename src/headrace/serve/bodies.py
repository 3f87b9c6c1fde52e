"""What comes with a request: read whole, never more than is allowed, and never for ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import ClientDisconnect, Request

from headrace.errors import BadRequest, BodyTooLarge, ServerBusy, UnknownContentType

MOST = 16 << 20
"""Bytes of a body, where nothing else is said."""
STATEMENTS = 1 << 20
"""Bytes of a body that is statements."""
_STILL = 30.0  # seconds in which something of a body must come
_SLOWEST = 1024  # bytes a second of a body, on the average, behind the first seconds


class Room:
    """Bytes of bodies that a server holds at once, of all requests together. On the loop only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """What is taken is given back at the end of the block, or before that by a count below 0."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if self._held + count > self._most:
                raise ServerBusy(f"the server holds {self._most} bytes of requests already", fix="send it again later")
            self._held, taken = self._held + count, taken + count

        try:
            yield take
        finally:
            self._held -= taken


async def body_of(request: Request, most: int = MOST, take: Callable[[int], None] = lambda count: None) -> bytes:
    """The bytes of a request's body; `take` is told of each part, and may refuse it."""
    if (packed := request.headers.get("content-encoding", "identity")) != "identity":
        raise UnknownContentType(f'a body cannot be packed as "{packed[:80]}"', fix="send it as it is")
    received = bytearray()
    now = asyncio.get_running_loop().time
    began = now()
    try:
        async with asyncio.timeout(_STILL) as still:
            async for part in request.stream():
                take(len(part))
                received += part
                still.reschedule(min(now(), began + len(received) / _SLOWEST) + _STILL)
                if len(received) > most:
                    raise BodyTooLarge(f"the body is larger than {most} bytes", fix="send it in parts")
    except TimeoutError:
        raise BadRequest(f"the rest of the body did not come within {_STILL:g} s", fix="send it again") from None
    except ClientDisconnect:
        raise BadRequest("whoever asked went away", fix="send it again") from None
    return bytes(received)


def document(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is. Its texts may have several lines: people type statements."""
    try:
        found = json.loads(body, strict=False)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}", fix="send a JSON object") from None
    if not isinstance(found, dict):
        raise BadRequest("the body is no JSON object", fix="send a JSON object")
    return found
