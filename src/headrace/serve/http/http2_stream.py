"""A request of HTTP/2 and its response: calls the ASGI application."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol
from urllib.parse import unquote

from headrace.serve.http import limits

Headers = list[tuple[bytes, bytes]]
_NOT_IN_HTTP2 = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
_FAILED = {
    "type": "http.response.start",
    "status": 500,
    "headers": [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"21")],
}
_logger = logging.getLogger(__name__)


class MalformedRequest(Exception):
    """The head of a request is not one of HTTP."""


class StreamConnection(Protocol):
    """What a stream needs of its connection."""

    def send_headers(self, stream: int, headers: Headers, *, end: bool = False) -> None: ...
    def send_data(self, stream: int, data: memoryview, *, end: bool) -> int:
        """Send as much as the client may receive at the moment; its size."""
        ...

    def acknowledge(self, stream: int, count: int) -> None:
        """Let the client send so many bytes more."""
        ...

    def finish(self, stream: Http2Stream, *, complete: bool) -> None: ...
    def stall(self, stream: Http2Stream) -> None: ...


class Http2Stream:
    """Receives messages for the application, and sends those of the application as the client reads."""

    def __init__(self, connection: StreamConnection, number: int, scope: dict[str, Any]) -> None:
        self.number = number
        self._connection, self._scope = connection, scope
        self._body = bytearray()
        self._unacknowledged = 0
        self._ended = self._end_told = False  # the request
        self._started = self._complete = False  # the response
        self._gone = False
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._expects_continue = (b"expect", b"100-continue") in scope["headers"]

    # -- what the client sends --------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, size: int) -> None:
        """Data of the body; `size` is what counts for flow control."""
        self._body += data
        self._unacknowledged += size
        self._news.set()

    def end_request(self) -> None:
        self._ended = True
        self._news.set()

    def disconnect(self) -> None:
        """The client has reset the stream, or is gone."""
        self._gone = True
        self._news.set()
        self._room.set()

    def resume(self) -> None:
        """The client may receive more."""
        self._room.set()

    @property
    def request_ended(self) -> bool:
        return self._ended

    def take_unacknowledged(self) -> int:
        count, self._unacknowledged = self._unacknowledged, 0
        return count

    # -- the application --------------------------------------------------------------------------------------------

    async def run(self, app: Any) -> None:
        try:
            if not self._gone:
                await app(self._scope, self.receive, self.send)
                await self._fail("returned without a response")
        except Exception:
            _logger.exception("a request failed: %s %s", self._scope["method"], self._scope["path"])
            await self._fail("failed")
        finally:
            if not self._gone and not self._complete:
                self._gone = True
                self._connection.finish(self, complete=False)

    async def _fail(self, what: str) -> None:
        if not self._started and not self._gone:
            _logger.error("the application %s", what)
            await self.send(_FAILED)
            await self.send({"type": "http.response.body", "body": b"Internal Server Error"})

    async def receive(self) -> dict[str, Any]:
        if self._expects_continue and not self._started and not self._gone:
            self._connection.send_headers(self.number, [(b":status", b"100")])
        self._expects_continue = False
        while not (self._gone or self._complete or self._body or (self._ended and not self._end_told)):
            self._news.clear()
            await self._news.wait()
        if self._gone or self._complete:
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        self._end_told = self._ended
        self._connection.acknowledge(self.number, self.take_unacknowledged())
        return {"type": "http.request", "body": body, "more_body": not self._ended}

    async def send(self, message: dict[str, Any]) -> None:
        """Send a part of the response. Nothing is sent to a client that is gone."""
        if self._gone:
            return
        expected = "http.response.body" if self._started else "http.response.start"
        if self._complete or message["type"] != expected:
            raise RuntimeError(f'unexpected message "{message["type"]}"')
        if not self._started:
            self._started = True
            self._connection.send_headers(self.number, _response_head(message))
            return
        ends = not message.get("more_body", False)
        body = b"" if self._scope["method"] == "HEAD" else message.get("body", b"")
        if body or ends:
            await self._send_body(memoryview(body), ends=ends)
        if ends and not self._gone:
            self._complete = True
            self._news.set()
            self._connection.finish(self, complete=True)

    async def _send_body(self, data: memoryview, *, ends: bool) -> None:
        """Send as the client reads. It must read something in a time, and not too slowly."""
        sent = self._connection.send_data(self.number, data, end=ends)
        if sent == len(data):
            return
        now = asyncio.get_running_loop().time
        began = now()
        try:
            async with asyncio.timeout(None) as timeout:
                while sent < len(data) and not self._gone:
                    timeout.reschedule(min(now(), began + sent / limits.SLOWEST) + limits.STALL_TIMEOUT)
                    self._room.clear()
                    sent += (step := self._connection.send_data(self.number, data[sent:], end=ends))
                    if not step:
                        await self._room.wait()
        except TimeoutError:
            self._connection.stall(self)


def _response_head(message: dict[str, Any]) -> Headers:
    headers = [(b":status", b"%d" % message["status"])]
    for name, value in message.get("headers", []):
        name = name.lower()
        if name not in _NOT_IN_HTTP2:
            headers.append((name, value))
    return headers


def request_scope(headers: Headers) -> dict[str, Any]:
    """The part of the ASGI scope that the head of a request determines."""
    pseudo = {name: value for name, value in headers if name.startswith(b":")}
    fields = [one for one in headers if not one[0].startswith(b":")]
    if authority := pseudo.get(b":authority"):
        fields = [(b"host", authority), *(one for one in fields if one[0] != b"host")]
    raw_path, _, query = pseudo.get(b":path", b"").partition(b"?")
    try:
        method, path = pseudo[b":method"].decode("ascii"), raw_path.decode("ascii")
    except (KeyError, UnicodeDecodeError):
        raise MalformedRequest from None
    if not path.startswith("/") and path != "*":
        raise MalformedRequest
    return {
        "method": method,
        "path": unquote(path) if "%" in path else path,
        "raw_path": raw_path,
        "query_string": query,
        "headers": fields,
    }
