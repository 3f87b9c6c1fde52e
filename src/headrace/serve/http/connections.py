"""Protocols of a connection: HTTP/1.1 and WebSocket by uvicorn, whose parser is fast; HTTP/2 on h2 (`http2`).

HTTP/2 starts with its preface; over TLS it is negotiated by ALPN. A request to upgrade from HTTP/1.1 is answered in
HTTP/1.1: behind a proxy, an upgrade would hide later requests from it.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from headrace.access.client_key import client_key
from headrace.errors import TooManyConnections
from headrace.serve.http import limits
from headrace.serve.http.http2 import Http2Connection
from headrace.serve.http.http2_budget import AddressBudgets
from headrace.serve.http.http2_frames import PREFACE
from headrace.serve.http.limits import MAX_HEAD_BYTES, REJECTIONS

_UPGRADE = re.compile(rb"\r\nupgrade:[ \t]*h2c[ \t]*(?=\r\n|$)", re.IGNORECASE)
_NEW_PER_ROUND = 4  # connections that begin in a round of the event loop
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json\r\n"


@dataclass(frozen=True)
class ConnectionLimits:
    """Maximum connections in total, per client address, and new ones of an address a second; 0: no limit."""

    most: int = 0
    each: int = 0
    new: int = 0

    def refusal(self, peer: str, open: Collection[Any]) -> bytes | None:
        """The error response for one more connection, if there are too many open."""
        if 0 < self.most <= len(open):
            return _refusal(f"there are {len(open)} connections already", "server.max_connections")
        if not 0 < self.each <= len(open):  # an address cannot have more than all
            return None
        count = sum(_peer(one) == peer for one in open)
        if self.each <= count:
            return _refusal(f"there are {count} connections with {peer} already", "server.max_connections_per_address")
        return None


def _refusal(what: str, setting: str, reason: str = "connections") -> bytes:
    REJECTIONS[reason] += 1
    error = TooManyConnections(what, fix=f"close some, try again later, or raise the setting {setting}")
    document = json.dumps({**error.as_dict(), "status": 503}).encode()
    return _FULL + b"content-length: %d\r\n\r\n" % len(document) + document


def _peer(protocol: Any) -> str:
    """The client on the other side."""
    address = protocol.transport.get_extra_info("peername")
    return client_key(str(address[0])) if address else ""


class NewConnections:
    """Lets a few connections begin in each round of the event loop; the others wait in the order of their arrival.

    A new connection costs more than a message: a protocol, often the TLS handshake. If all that arrive together began
    together, clients that have a connection would wait for all of them. Event loop only.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._begun = 0
        """Connections that have begun in this round."""

    def begin(self, start: Callable[[], None]) -> None:
        """Call `start` in this round, or in a later one."""
        if self._begun == _NEW_PER_ROUND:
            self._waiting.append(start)
            return
        self._count()
        start()

    def _count(self) -> None:
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._end_round)
        self._begun += 1

    def _end_round(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < _NEW_PER_ROUND:
            self._count()
            self._waiting.popleft()()


class Connection(asyncio.Protocol):
    """A new connection, until its protocol is known. uvicorn creates it with these arguments."""

    arrivals: ClassVar[NewConnections] = NewConnections()
    limits: ClassVar[ConnectionLimits] = ConnectionLimits()
    addresses: ClassVar[AddressBudgets] = AddressBudgets()
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
        self._received = b""
        self._has_begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - a stream transport
        self.transport = transport
        self._timer = self._loop.call_later(limits.IDLE_TIMEOUT, transport.close)
        if (refusal := self._refusal()) is not None:  # not possible before the TLS handshake
            transport.write(b"" if self.tls else refusal)
            transport.close()
            return
        self._open.add(self)
        if self.tls is not None:
            transport.pause_reading()
        self.arrivals.begin(self._begin)

    def _begin(self) -> None:
        if self.transport.is_closing():
            return
        self._has_begun = True
        if self.tls is not None:
            self._securing = self._loop.create_task(self._secure(self.tls))
        elif self._received:
            self.transport.resume_reading()
            self._detect()

    def _refusal(self) -> bytes | None:
        address = self.transport.get_extra_info("peername")
        if address and not self.addresses.admits_connection(str(address[0]), self._loop.time()):
            what = f"{_peer(self)} has opened more than {self.addresses.rate:g} connections a second"
            return _refusal(what, "server.max_new_connections_per_address", "new-connections")
        return self.limits.refusal(_peer(self), self._open)

    async def _secure(self, tls: ssl.SSLContext) -> None:
        """Run the TLS handshake. The connection counts from the start, so stalled handshakes are limited, too."""
        try:
            secure = await self._loop.start_tls(
                self.transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=limits.HANDSHAKE_TIMEOUT,
                ssl_shutdown_timeout=limits.SHUTDOWN_GRACE,
            )
        except (OSError, asyncio.CancelledError):
            secure = None
        if secure is None:
            self.transport.abort()
            self._forget()
            return
        self.transport = secure
        agreed = secure.get_extra_info("ssl_object").selected_alpn_protocol()
        self._speak(self._http2() if agreed == "h2" else self._http1())

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._timer.cancel()
            self._timer = self._loop.call_later(limits.HEAD_TIMEOUT, self.transport.close)
        self._received += data
        if not self._has_begun:
            self.transport.pause_reading()
        elif self.tls is None:  # else it has arrived before `_secure` has resumed
            self._detect()

    def _detect(self) -> None:
        """Hand the connection over to its protocol, once that is known."""
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if self._received.startswith(PREFACE):
            self._speak(self._http2())
        elif end and not PREFACE.startswith(self._received):
            self._received = _UPGRADE.sub(b"", head) + end + rest
            self._speak(self._http1())
        elif len(self._received) > MAX_HEAD_BYTES:
            REJECTIONS["head"] += 1
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()

    def shutdown(self) -> None:
        self.transport.close()

    def _http1(self) -> Http1Connection:
        return Http1Connection(*self._given, self._loop)

    def _http2(self) -> Http2Connection:
        return Http2Connection(*self._given, self._loop, self.addresses)

    def _speak(self, protocol: Http1Connection | Http2Connection) -> None:
        self._forget()
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if self._received:
            protocol.data_received(self._received)

    def _forget(self) -> None:
        self._timer.cancel()
        self._open.discard(self)


class _HeadTooLong(Exception):
    """The head of a request exceeds its limit."""


class _Pipelined(Exception):
    """Too many requests wait for the response to an earlier one."""


class Http1Connection(HttpToolsProtocol):
    """HTTP/1.1 with timeouts for an incomplete head, and for data after a response that is not a request.

    Data that is neither head nor body (trailers, empty lines) has the size limit of a head, and is discarded.
    """

    _wait: asyncio.TimerHandle | None = None
    _in_head = False
    _goes_on = False
    _head_bytes = 0
    _size = 0
    """Bytes since the last request, part of a body, or end of a body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - a stream transport
        super().connection_made(transport)
        self._wait_for(limits.IDLE_TIMEOUT)

    def data_received(self, data: bytes) -> None:
        self._goes_on = False
        super().data_received(data)
        if self.transport.get_protocol() is not self or self.transport.is_closing():
            return
        self._size = 0 if self._goes_on else self._size + len(data)
        if self._size > MAX_HEAD_BYTES and self._in_head:
            self._refuse_head()
        elif self._size > MAX_HEAD_BYTES:
            self.transport.close()
        elif self._wait is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for(limits.IDLE_TIMEOUT)  # received data cancelled it, but is not a request yet

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= limits.MAX_PIPELINED:
            raise _Pipelined
        self._goes_on = self._in_head = True
        self._head_bytes = 0
        self._wait_for(limits.HEAD_TIMEOUT)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._add_to_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)
            self._add_to_head(len(name) + len(value) + len(": \r\n"))

    def _add_to_head(self, count: int) -> None:
        self._head_bytes += count
        if self._head_bytes > MAX_HEAD_BYTES:
            raise _HeadTooLong

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

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser, or a method that it calls, does not accept."""
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head()
        elif len(self.pipeline) >= limits.MAX_PIPELINED:
            REJECTIONS["pipelined"] += 1
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _refuse_head(self) -> None:
        REJECTIONS["head"] += 1
        self.transport.write(_TOO_LONG)
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Close: the parser stops at an upgrade request to another protocol, and its body is lost."""
        self.transport.close()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """WebSocket for clients that read. uvicorn would collect the pongs for one that does not."""

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            REJECTIONS["websocket-pings"] += 1
            self.transport.abort()
