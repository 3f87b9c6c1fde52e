"""One request and its answer: read at once, or line by line as it comes.

An answer that breaks off is never taken for one that has ended: a server that was killed leaves `ConnectionLost`.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from headrace.client.documents import read_json
from headrace.client.refusals import is_refusal, refused
from headrace.errors import BadRequest, ConnectionLost, ServerFailed, ServerUnreachable

_PORTS = {"http": 80, "https": 443}
_CONNECT = 10.0  # seconds; an answer may take as long as it takes
_AT_ONCE = 1 << 16
OK = 200
DOCUMENT, LINES = "application/vnd.ksql.v1+json", "application/vnd.ksqlapi.delimited.v1"
"""What a request and its answer are: one JSON document, or one per line."""


@dataclass(frozen=True)
class Address:
    """Where a server listens: http(s)://HOST:PORT, with a path where it has one."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            port = _PORTS[parts.scheme]
            if not parts.hostname or parts.query or parts.username:
                raise ValueError
            return cls(parts.scheme, parts.hostname, parts.port or port, parts.path.rstrip("/"))
        except (ValueError, KeyError):
            raise BadRequest(f'"{text}" is no server\'s address', fix="write it like http://127.0.0.1:8088") from None

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}{self.path}"


@dataclass(frozen=True)
class Shown:
    """What a client shows to a server, and by which certificates (a file, PEM) it knows the server."""

    token: str | None = None
    ca: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)


NOTHING = Shown()


class Exchange:
    """What a server answers to one request; the connection is its own, and ends with it."""

    def __init__(
        self,
        address: Address,
        path: str,
        body: bytes | None = None,
        accept: str = DOCUMENT,
        shown: Shown = NOTHING,
    ) -> None:
        self._address = address
        self._shown = shown
        self._connection = _connected(address, shown)
        self._socket: socket.socket = self._connection.sock
        self._closed = False
        try:
            self._response = self._answered(path, body, accept)
        except BaseException:
            self.close()
            raise

    def _answered(self, path: str, body: bytes | None, accept: str) -> HTTPResponse:
        headers = {"Accept": accept, "Connection": "close", **self._shown.headers}
        if body is not None:
            headers["Content-Type"] = accept
        try:
            method = "GET" if body is None else "POST"
            self._connection.request(method, self._address.path + path, body, headers)
            return self._connection.getresponse()
        except (OSError, HTTPException) as error:
            raise self._lost(error) from error

    # -- the answer -------------------------------------------------------------------------------------------------

    def document(self) -> Any:
        """All of it, as one JSON document; what is refused is raised."""
        with self:
            try:
                told = self._response.read()
            except (OSError, HTTPException) as error:
                raise self._lost(error) from error
            document = self._read(told)
            if self._response.status != OK or is_refusal(document):
                raise refused(self._response.status, document)
            return document

    def batches(self) -> Iterator[list[Any]]:
        """A JSON document per line, as many at a time as have come."""
        if self._response.status != OK:
            self.document()
        rest = b""
        while part := self._part():
            *lines, rest = (rest + part).split(b"\n")
            if documents := [self._read(line) for line in lines if line.strip()]:
                yield documents
        if rest.strip() and not self._closed:
            yield [self._read(rest)]

    def _part(self) -> bytes:
        """What has come; nothing at the end, or when somebody has closed it."""
        try:
            return self._response.read1(_AT_ONCE)
        except (OSError, HTTPException, ValueError, AttributeError) as error:
            # Closed in the middle of a read, http.client finds its file gone.
            if self._closed:
                return b""
            raise self._lost(error) from error

    def _read(self, text: bytes) -> Any:
        try:
            return read_json(text)
        except ValueError as error:
            raise ServerFailed(
                f"{self._address} answers with status {self._response.status} and no JSON: {_excerpt(text)}",
                fix="look whether a headrace server listens there",
            ) from error

    def _lost(self, error: Exception) -> ConnectionLost:
        return ConnectionLost(
            f"the connection to {self._address} was lost: {error or type(error).__name__}",
            fix="look whether the server runs, and what of it was done, before it is asked again",
        )

    # -- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """May be called from any thread: who waits for more gets no more."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        self._socket.close()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connected(address: Address, shown: Shown) -> HTTPConnection:
    place = address.host, address.port
    try:
        if address.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(*place, timeout=_CONNECT, context=shown.context)
        else:
            connection = HTTPConnection(*place, timeout=_CONNECT)
        connection.connect()
    except (OSError, HTTPException) as error:
        raise ServerUnreachable(
            f"no server answers at {address}: {error}", fix="start one with `headrace up`, or name another address"
        ) from error
    connection.sock.settimeout(None)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


def _excerpt(text: bytes, most: int = 80) -> str:
    shown = text.decode(errors="replace").strip()
    return shown if len(shown) <= most else f"{shown[:most]} ..."
