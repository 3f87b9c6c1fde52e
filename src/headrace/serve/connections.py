"""What a connection speaks: HTTP/1.1 and WebSockets by uvicorn, whose parser is fast; HTTP/2 by Hypercorn.

HTTP/2 begins with words of its own, or with a request that asks for it; over TLS both sides have agreed before.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config as Settings
from hypercorn.protocol import h2
from hypercorn.utils import wrap_app
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from headrace.errors import TooManyConnections
from headrace.serve.proxies import PROXIED

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 64 << 10
"""Bytes of a request before its body."""
HEAD_TIME = 20.0
"""Seconds for them to come, from the first one on."""
HANDSHAKE = 10.0
"""Seconds until a connection over TLS must be secure."""
GRACE = 3
"""Seconds for requests under way when the server stops."""
MESSAGE = 64 << 10
"""Bytes of a message that comes over a WebSocket: nobody has much to say there."""
SILENT = 75
"""Seconds that a connection may say nothing between two requests."""
_REQUESTS = 1 << 30  # of one connection: who asks often keeps it
_ASKS_FOR_2 = re.compile(rb"\r\nupgrade:[ \t]*h2c", re.IGNORECASE)
# What a proxy says of whom it asks for stands in the first request only: what followed would seem to be from here.
_PROXIED = re.compile(rb"\r\n(?:" + b"|".join(map(re.escape, sorted(PROXIED))) + rb")[ \t]*:", re.IGNORECASE)
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json\r\n"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Crowd:
    """How many connections a server has at once, and with one address; 0: any number."""

    most: int = 0
    each: int = 0

    def refusal(self, peer: str, open: Collection[Any]) -> bytes | None:
        """What is told to one more, if it is one too many."""
        if 0 < self.most <= len(open):
            return _refusal(f"there are {len(open)} connections already", "connections")
        count = sum(_peer(one) == peer for one in open) if self.each else 0
        if 0 < self.each <= count:
            return _refusal(f"there are {count} connections with {peer} already", "connections_each")
        return None


def _refusal(what: str, setting: str) -> bytes:
    error = TooManyConnections(what, fix=f"close some, try again later, or raise the setting {setting}")
    told = json.dumps({**error.as_dict(), "status": 503}).encode()
    return _FULL + b"content-length: %d\r\n\r\n" % len(told) + told


def _peer(protocol: Any) -> str:
    """The other side's address. Each kind of connection knows its transport by one of these names."""
    transport = getattr(protocol, "transport", None) or getattr(protocol, "_transport", None)
    address = transport.get_extra_info("peername") if transport is not None else None
    return str(address[0]) if address else ""


class Connection(asyncio.Protocol):
    """A new connection, until it is known what it speaks. Made by uvicorn, of which these arguments are."""

    crowd: ClassVar[Crowd] = Crowd()
    tls: ClassVar[ssl.SSLContext | None] = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._given = config, server_state, app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._open: set[Any] = server_state.connections
        self._begun = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - it is one with streams
        self._transport = transport
        self._timer = self._loop.call_later(SILENT, transport.close)
        refusal = self.crowd.refusal(_peer(self), self._open)
        if refusal is not None:  # over TLS it could not be told
            transport.write(b"" if self.tls else refusal)
            transport.close()
            return
        self._open.add(self)
        if self.tls is not None:
            transport.pause_reading()
            self._securing = self._loop.create_task(self._secure(self.tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        """It counts before it is secure: who says nothing, or goes on for ever, takes a place as well."""
        try:
            secure = await self._loop.start_tls(
                self._transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE,
                ssl_shutdown_timeout=GRACE,
            )
        except (OSError, asyncio.CancelledError):
            secure = None
        if secure is None:
            self._transport.abort()
            self._forget()
            return
        self._transport = secure
        agreed = secure.get_extra_info("ssl_object").selected_alpn_protocol()
        self._speak(Http2 if agreed == "h2" else Http1)

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            self._timer.cancel()
            self._timer = self._loop.call_later(HEAD_TIME, self._transport.close)
        self._begun += data
        if self.tls is not None:  # the first words, before `_secure` has heard that it is done
            return
        head, end, _ = self._begun.partition(b"\r\n\r\n")
        if self._begun.startswith(PREFACE):
            self._speak(Http2)
        elif end and not PREFACE.startswith(self._begun):
            self._speak(Http2 if _ASKS_FOR_2.search(head) and not _PROXIED.search(head) else Http1)
        elif len(self._begun) > HEAD:
            self._transport.write(_TOO_LONG)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()

    def shutdown(self) -> None:
        self._transport.close()

    def _speak(self, kind: type[Http1] | type[Http2]) -> None:
        self._forget()
        protocol = kind(*self._given, self._loop)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if self._begun:
            protocol.data_received(self._begun)

    def _forget(self) -> None:
        self._timer.cancel()
        self._open.discard(self)


class Http1(HttpToolsProtocol):
    """Nobody is waited for who does not come to an end: of a head, or of what follows an answer and is no request.

    What is neither head nor body (trailers, empty lines) is bounded as a head is, and not kept.
    """

    _wait: asyncio.TimerHandle | None = None
    _in_head = False
    _goes_on = False
    _size = 0
    """Bytes since a request, a part of a body or its end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - it is one with streams
        super().connection_made(transport)
        self._wait_for(SILENT)

    def data_received(self, data: bytes) -> None:
        self._goes_on = False
        super().data_received(data)
        if self.transport.get_protocol() is not self or self.transport.is_closing():
            return
        self._size = 0 if self._goes_on else self._size + len(data)
        if self._size > HEAD:
            if self._in_head:
                self.transport.write(_TOO_LONG)
            self.transport.close()
        elif self._wait is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for(SILENT)  # it was cancelled by what has come, which is no request yet

    def on_message_begin(self) -> None:
        self._goes_on = self._in_head = True
        self._wait_for(HEAD_TIME)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._has_come()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._goes_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._goes_on = True
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_come()
        super().connection_lost(exc)

    def _wait_for(self, seconds: float) -> None:
        self._has_come()
        self._wait = self.loop.call_later(seconds, self.transport.close)

    def _has_come(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None

    def _unsupported_upgrade_warning(self) -> None:
        """The parser stops at a request that asks for something else, and its body is lost."""
        self.transport.close()


class Http2(asyncio.StreamReaderProtocol):
    """A connection that Hypercorn serves, in a task of its own."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(asyncio.StreamReader(loop=loop), self._begin, loop)
        self._serving: tuple[Any, ...] = config.loaded_app, app_state, loop
        self._open: set[Any] = server_state.connections
        self._context = WorkerContext(None)
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._open.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """No further requests; those under way have a while to end."""
        if self._task is not None:
            *_, loop = self._serving
            self._ending = loop.create_task(self._context.terminated.set())
            loop.call_later(0.8 * GRACE, self._task.cancel)

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._task = task = asyncio.current_task()
        assert task is not None
        app, state, loop = self._serving
        wait = loop.call_later(HEAD_TIME, task.cancel)  # Hypercorn waits for ever for the first request

        async def heard(*asked: Any) -> None:
            wait.cancel()
            await app(*asked)

        with suppress(asyncio.CancelledError):  # by `shutdown`, or as nothing was asked
            await TCPServer(wrap_app(heard, 0, "asgi"), loop, _settings(), self._context, state, reader, writer)
        wait.cancel()


class _Buffer(h2.StreamBuffer):
    """What a reader has not taken yet. Hypercorn's own lets the app go on as soon as the reader takes nothing."""

    async def pop(self, max_length: int) -> bytes:
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if len(self.buffer) < h2.BUFFER_HIGH_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data


h2.StreamBuffer = _Buffer  # type: ignore[misc] - there is no other way in


@cache
def _settings() -> Settings:
    settings = Settings()
    settings.keep_alive_timeout = SILENT
    settings.websocket_max_message_size = MESSAGE
    settings.include_server_header = False
    settings.keep_alive_max_requests = _REQUESTS
    settings.errorlog = _logger  # type: ignore[assignment] - a logger is allowed, and not declared
    return settings
