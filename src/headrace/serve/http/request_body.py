"""Reads request bodies with limits on size and time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import ClientDisconnect, Request

from headrace.errors import BadRequest, BodyTooLarge, ServerBusy, UnknownContentType

MAX_BODY_BYTES = 16 << 20
"""Maximum bytes of a body, by default."""
MAX_STATEMENTS_BYTES = 1 << 20
"""Maximum bytes of a body with statements."""
_IDLE_SECONDS = 30.0  # seconds in which a part of a body must arrive
_SLOWEST = 1024  # minimum bytes per second of a body, on average, after the first seconds


class BodyBudget:
    """Limits the bytes of all request bodies that the server holds at once. Event loop only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """A function that reserves bytes, or releases them by a negative count. The rest is released at the end of the
        block.
        """
        reserved = 0

        def take(count: int) -> None:
            nonlocal reserved
            if self._held + count > self._most:
                raise ServerBusy(f"the server already holds {self._most} bytes of requests", fix="send it again later")
            self._held, reserved = self._held + count, reserved + count

        try:
            yield take
        finally:
            self._held -= reserved


async def read_body(
    request: Request, most: int = MAX_BODY_BYTES, take: Callable[[int], None] = lambda count: None
) -> bytes:
    """Read a request's body. `take` is called with the size of each part, and may raise."""
    if (packed := request.headers.get("content-encoding", "identity")) != "identity":
        raise UnknownContentType(
            f'content encoding is not supported: "{packed[:80]}"', fix="send the body uncompressed"
        )
    received = bytearray()
    now = asyncio.get_running_loop().time
    began = now()
    try:
        async with asyncio.timeout(_IDLE_SECONDS) as timeout:
            async for part in request.stream():
                take(len(part))
                received += part
                timeout.reschedule(min(now(), began + len(received) / _SLOWEST) + _IDLE_SECONDS)
                if len(received) > most:
                    raise BodyTooLarge(f"the body is larger than {most} bytes", fix="send it in parts")
    except TimeoutError:
        raise BadRequest(
            f"the rest of the body did not arrive within {_IDLE_SECONDS:g} s", fix="send it again"
        ) from None
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
