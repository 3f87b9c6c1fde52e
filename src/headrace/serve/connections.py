"""What a connection speaks: HTTP/1.1 and WebSockets by uvicorn, whose parser is fast; HTTP/2 by Hypercorn.

HTTP/2 begins with words of its own, or with a request that asks for it; over TLS both sides have agreed before.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
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

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 64 << 10
"""Bytes of the first request before its body."""
GRACE = 3
"""Seconds for requests under way when the server stops."""
SILENT = 75
"""Seconds that a connection may say nothing between two requests."""
_REQUESTS = 1 << 30  # of one connection: who asks often keeps it
_ASKS_FOR_2 = re.compile(rb"\r\nupgrade:[ \t]*h2c", re.IGNORECASE)
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_logger = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """A new connection, until it is known what it speaks. Made by uvicorn, of which these arguments are."""

    alpn_protocols: ClassVar[list[str]] = ["h2", "http/1.1"]

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
        self._open.add(self)
        if (agreed := transport.get_extra_info("ssl_object")) is not None:
            self._speak(Http2 if agreed.selected_alpn_protocol() == "h2" else Http1)

    def data_received(self, data: bytes) -> None:
        self._begun += data
        head, end, _ = self._begun.partition(b"\r\n\r\n")
        if self._begun.startswith(PREFACE):
            self._speak(Http2)
        elif end and not PREFACE.startswith(self._begun):
            self._speak(Http2 if _ASKS_FOR_2.search(head) else Http1)
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
        self._task = asyncio.current_task()
        app, state, loop = self._serving
        with suppress(asyncio.CancelledError):  # by `shutdown`
            await TCPServer(wrap_app(app, 0, "asgi"), loop, _settings(), self._context, state, reader, writer)


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
    settings.include_server_header = False
    settings.keep_alive_max_requests = _REQUESTS
    settings.errorlog = _logger  # type: ignore[assignment] - a logger is allowed, and not declared
    return settings
