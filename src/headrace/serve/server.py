"""One application on one port: HTTP/1.1 and HTTP/2 in clear text, in the foreground or beside the caller.

The port is open when a `Server` is made, so nobody else can take it meanwhile, and port 0 is a free one. A server of
the loopback interface answers only to who asks for it by such a name: a web page from elsewhere, whose name leads
here, is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.middleware.trustedhost import TrustedHostMiddleware

from headrace.errors import PortTaken

_logger = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "localhost")
_STILL = 30.0  # seconds after which the kernel drops a connection whose other side takes nothing of what was sent
_GRACE = 3.0  # seconds for requests under way when the server stops
_REQUESTS = 1 << 30  # of one connection: who asks often keeps it


class Server:
    """Serves until `stop`; use `running` to have it beside the caller."""

    def __init__(self, app: Any, host: str = "127.0.0.1", port: int = 0) -> None:
        self._app = TrustedHostMiddleware(app, allowed_hosts=list(LOOPBACK)) if host in LOOPBACK else app
        try:
            self._socket = socket.create_server((host, port))
        except (OSError, OverflowError) as error:
            raise PortTaken(
                f"cannot listen on {host}:{port}: {error}", fix="end the process that listens there, or use --port"
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * _STILL))
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    def run(self) -> None:
        """Serve in this thread."""
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    def stop(self) -> None:
        """May be called from any thread and from a signal's handler."""
        with contextlib.suppress(RuntimeError):  # it has stopped
            self._loop.call_soon_threadsafe(self._end.set)

    def stop_on_signals(self) -> None:
        """On Ctrl-C and SIGTERM. To be called on the main thread."""
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda *_: self.stop())

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        """Serve beside the caller, to the end of the block."""
        thread = threading.Thread(target=self.run, name=f"http-{self.port}", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stop()
            thread.join()

    async def _serve(self) -> None:
        self._loop.set_exception_handler(_went_wrong)
        config = Config()
        config.bind = [f"fd://{self._socket.detach()}"]
        config.graceful_timeout = _GRACE
        config.include_server_header = False
        config.keep_alive_max_requests = _REQUESTS
        config.errorlog = _logger  # type: ignore[assignment] - a logger is allowed, and not declared
        await serve(self._app, config, shutdown_trigger=self._end.wait)  # type: ignore[arg-type]


def _went_wrong(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A connection that is gone is nothing to tell of."""
    if isinstance(context.get("exception"), OSError):
        _logger.debug("a connection broke: %s", context["exception"])
    else:
        loop.default_exception_handler(context)
