"""Serves one application on one port: HTTP/1.1 and HTTP/2, with or without TLS, in the foreground or in a thread.

The port is bound when a `Server` is created, so no other process can take it meanwhile; port 0 selects a free one. A
server on the loopback interface accepts only loopback names as host: this refuses web pages of other servers whose name
resolves to this machine (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
import uvloop
from starlette.middleware.trustedhost import TrustedHostMiddleware

from headrace.access.tokens import is_loopback
from headrace.errors import PortInUse
from headrace.serve.http.connections import Connection, ConnectionLimits, NewConnections, WebSocketConnection
from headrace.serve.http.http2_budget import AddressBudgets
from headrace.serve.http.limits import IDLE_TIMEOUT, MAX_MESSAGE_BYTES, SHUTDOWN_GRACE
from headrace.serve.http.trusted_proxies import Networks, TrustedProxies, parse_networks

_logger = logging.getLogger(__name__)
LOOPBACK_HOSTS = ("127.0.0.1", "localhost")
_KEEPALIVE_IDLE, _KEEPALIVE_INTERVAL = 60, 15  # seconds
_SWITCH_SECONDS = 0.0002  # Python's default, 5 ms, is what the event loop waits after each send while a thread computes
_YOUNG_OBJECTS, _YOUNG_ROUNDS, _MIDDLE_ROUNDS = 10_000, 20, 50  # between two runs of the garbage collector
_ACK_TIMEOUT = 30.0  # seconds after which the kernel drops a connection whose peer does not acknowledge data


def dedicate_process() -> None:
    """Adapt the whole process to serving: threads take turns more often, and garbage collection does not stop them.

    A run of the garbage collector over all objects of a server takes some 100 ms, and large results make it run often.
    What exists when the server starts stays until its end, so it is left out from then on.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_ROUNDS, _MIDDLE_ROUNDS)


class Server:
    """Serves until `stop`; use `running` to serve in the background."""

    def __init__(
        self,
        app: Any,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        limits: ConnectionLimits | None = None,
        tls: tuple[str, str] | None = None,
        trusted_proxies: str = "",
    ) -> None:
        """`tls` are the certificate and key files. A trusted proxy may forward its own name as host."""
        direct = TrustedHostMiddleware(app, allowed_hosts=[*LOOPBACK_HOSTS, host]) if is_loopback(host) else app
        networks = parse_networks(trusted_proxies)
        guarded = TrustedProxies(direct, app, networks) if networks else direct
        try:
            self._socket = socket.create_server((host, port), family=_family(host))
        except (OSError, OverflowError) as error:
            raise PortInUse(
                f"cannot listen on {host}:{port}: {error}",
                fix="stop the process that uses the port, or choose another with --port",
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * _ACK_TIMEOUT))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._detect_lost_clients()
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._scheme = "http" if tls is None else "https"
        # uvloop reads from a new connection in any case, and the handshake would miss what has been read
        self._new_event_loop = uvloop.new_event_loop if tls is None else asyncio.new_event_loop
        self._server = uvicorn.Server(_config(guarded, limits or ConnectionLimits(), networks, tls))

    def _detect_lost_clients(self) -> None:
        """End idle connections whose client has vanished; accepted sockets inherit these options."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL)

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self._scheme}://{host}:{self.port}"

    def run(self) -> None:
        """Serve in the calling thread."""
        with asyncio.Runner(loop_factory=self._new_event_loop) as runner:
            runner.get_loop().set_exception_handler(_went_wrong)
            runner.run(self._server.serve([self._socket]))

    def stop(self) -> None:
        """Can be called from any thread and from a signal handler."""
        self._server.should_exit = True

    def stop_on_signals(self) -> None:
        """Stop on Ctrl-C and SIGTERM. Call it on the main thread."""
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda *_: self.stop())

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        """Serve in a background thread until the end of the block."""
        thread = threading.Thread(target=self.run, name=f"http-{self.port}", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stop()
            thread.join()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def _config(app: Any, limits: ConnectionLimits, proxies: Networks, tls: tuple[str, str] | None) -> uvicorn.Config:
    own = {
        "arrivals": NewConnections(),
        "limits": limits,
        "addresses": AddressBudgets(limits.new, proxies),
        "tls": _context(*tls) if tls else None,
    }
    return uvicorn.Config(
        app,
        http=type("Connection", (Connection,), own),
        ws=WebSocketConnection,
        ws_max_size=MAX_MESSAGE_BYTES,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # see `TrustedProxies`
        timeout_keep_alive=IDLE_TIMEOUT,
        timeout_graceful_shutdown=SHUTDOWN_GRACE,
    )


def _went_wrong(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of the event loop; a lost connection only at debug level."""
    if isinstance(context.get("exception"), OSError):
        _logger.debug("a connection broke: %s", context["exception"])
    else:
        loop.default_exception_handler(context)
