"""Protocols of a connection: HTTP/1.1 and WebSocket by uvicorn, whose parser is fast; HTTP/2 by Hypercorn.

HTTP/2 starts with its preface or with an upgrade request; over TLS it is negotiated by ALPN.
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
from headrace.serve.http.trusted_proxies import PROXY_HEADERS

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_HEAD_BYTES = 64 << 10
"""Maximum bytes of a request before its body."""
HEAD_TIMEOUT = 20.0
"""Seconds to receive the head, from its first byte on."""
HANDSHAKE_TIMEOUT = 10.0
"""Seconds for the TLS handshake."""
SHUTDOWN_GRACE = 3
"""Seconds for requests in progress when the server stops."""
MAX_MESSAGE_BYTES = 64 << 10
"""Maximum bytes of a received WebSocket message: clients send little."""
IDLE_TIMEOUT = 75
"""Seconds that a connection may be idle between two requests."""
_REQUESTS = 1 << 30  # per connection: no limit for busy clients
_ASKS_FOR_2 = re.compile(rb"\r\nupgrade:[ \t]*h2c", re.IGNORECASE)
# Proxy headers are in the first request only: after an upgrade, later requests would seem to be local.
_PROXIED = re.compile(rb"\r\n(?:" + b"|".join(map(re.escape, sorted(PROXY_HEADERS))) + rb")[ \t]*:", re.IGNORECASE)
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json\r\n"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConnectionLimits:
    """Maximum connections of a server, in total and per address; 0: no limit."""

    most: int = 0
    each: int = 0

    def refusal(self, peer: str, open: Collection[Any]) -> bytes | None:
        """The error response for one more connection, if it exceeds a limit."""
        if 0 < self.most <= len(open):
            return _refusal(f"there are {len(open)} connections already", "server.max_connections")
        count = sum(_peer(one) == peer for one in open) if self.each else 0
        if 0 < self.each <= count:
            return _refusal(f"there are {count} connections with {peer} already", "server.max_connections_per_address")
        return None


def _refusal(what: str, setting: str) -> bytes:
    error = TooManyConnections(what, fix=f"close some, try again later, or raise the setting {setting}")
    document = json.dumps({**error.as_dict(), "status": 503}).encode()
    return _FULL + b"content-length: %d\r\n\r\n" % len(document) + document


def _peer(protocol: Any) -> str:
    """The peer's address. Each kind of connection stores its transport under one of these names."""
    transport = getattr(protocol, "transport", None) or getattr(protocol, "_transport", None)
    address = transport.get_extra_info("peername") if transport is not None else None
    return str(address[0]) if address else ""


class Connection(asyncio.Protocol):
    """A new connection, until its protocol is known. uvicorn creates it with these arguments."""

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()
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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - a stream transport
        self._transport = transport
        self._timer = self._loop.call_later(IDLE_TIMEOUT, transport.close)
        refusal = self.limits.refusal(_peer(self), self._open)
        if refusal is not None:  # not possible before the TLS handshake
            transport.write(b"" if self.tls else refusal)
            transport.close()
            return
        self._open.add(self)
        if self.tls is not None:
            transport.pause_reading()
            self._securing = self._loop.create_task(self._secure(self.tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        """Run the TLS handshake. The connection counts from the start, so stalled handshakes are limited, too."""
        try:
            secure = await self._loop.start_tls(
                self._transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
                ssl_shutdown_timeout=SHUTDOWN_GRACE,
            )
        except (OSError, asyncio.CancelledError):
            secure = None
        if secure is None:
            self._transport.abort()
            self._forget()
            return
        self._transport = secure
        agreed = secure.get_extra_info("ssl_object").selected_alpn_protocol()
        self._speak(Http2Connection if agreed == "h2" else Http1Connection)

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            self._timer.cancel()
            self._timer = self._loop.call_later(HEAD_TIMEOUT, self._transport.close)
        self._begun += data
        if self.tls is not None:  # data that arrives before `_secure` has resumed
            return
        head, end, _ = self._begun.partition(b"\r\n\r\n")
        if self._begun.startswith(PREFACE):
            self._speak(Http2Connection)
        elif end and not PREFACE.startswith(self._begun):
            self._speak(Http2Connection if _ASKS_FOR_2.search(head) and not _PROXIED.search(head) else Http1Connection)
        elif len(self._begun) > MAX_HEAD_BYTES:
            self._transport.write(_TOO_LONG)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()

    def shutdown(self) -> None:
        self._transport.close()

    def _speak(self, kind: type[Http1Connection] | type[Http2Connection]) -> None:
        self._forget()
        protocol = kind(*self._given, self._loop)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if self._begun:
            protocol.data_received(self._begun)

    def _forget(self) -> None:
        self._timer.cancel()
        self._open.discard(self)


class Http1Connection(HttpToolsProtocol):
    """HTTP/1.1 with timeouts for an incomplete head, and for data after a response that is not a request.

    Data that is neither head nor body (trailers, empty lines) has the size limit of a head, and is discarded.
    """

    _wait: asyncio.TimerHandle | None = None
    _in_head = False
    _goes_on = False
    _size = 0
    """Bytes since the last request, part of a body, or end of a body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - a stream transport
        super().connection_made(transport)
        self._wait_for(IDLE_TIMEOUT)

    def data_received(self, data: bytes) -> None:
        self._goes_on = False
        super().data_received(data)
        if self.transport.get_protocol() is not self or self.transport.is_closing():
            return
        self._size = 0 if self._goes_on else self._size + len(data)
        if self._size > MAX_HEAD_BYTES:
            if self._in_head:
                self.transport.write(_TOO_LONG)
            self.transport.close()
        elif self._wait is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for(IDLE_TIMEOUT)  # received data cancelled it, but is not a request yet

    def on_message_begin(self) -> None:
        self._goes_on = self._in_head = True
        self._wait_for(HEAD_TIMEOUT)
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
        """Close: the parser stops at an upgrade request to another protocol, and its body is lost."""
        self.transport.close()


class Http2Connection(asyncio.StreamReaderProtocol):
    """A connection that Hypercorn serves, in its own task."""

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
        """Accept no further requests; those in progress have some time to finish."""
        if self._task is not None:
            *_, loop = self._serving
            self._ending = loop.create_task(self._context.terminated.set())
            loop.call_later(0.8 * SHUTDOWN_GRACE, self._task.cancel)

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._task = task = asyncio.current_task()
        assert task is not None
        app, state, loop = self._serving
        wait = loop.call_later(HEAD_TIMEOUT, task.cancel)  # Hypercorn waits for the first request without a timeout

        async def heard(*args: Any) -> None:
            wait.cancel()
            await app(*args)

        with suppress(asyncio.CancelledError):  # by `shutdown`, or because no request came
            await TCPServer(wrap_app(heard, 0, "asgi"), loop, _settings(), self._context, state, reader, writer)
        wait.cancel()


class _Buffer(h2.StreamBuffer):
    """Data that the client has not read. Hypercorn's own buffer resumes the app when the client stops reading."""

    async def pop(self, max_length: int) -> bytes:
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if len(self.buffer) < h2.BUFFER_HIGH_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data


h2.StreamBuffer = _Buffer  # type: ignore[misc] - Hypercorn has no hook for it


@cache
def _settings() -> Settings:
    settings = Settings()
    settings.keep_alive_timeout = IDLE_TIMEOUT
    settings.websocket_max_message_size = MAX_MESSAGE_BYTES
    settings.include_server_header = False
    settings.keep_alive_max_requests = _REQUESTS
    settings.errorlog = _logger  # type: ignore[assignment] - a logger is allowed, but not declared
    return settings
