"""One HTTP request and its response, read as a whole or line by line as it arrives.

A truncated response never counts as complete: if the server is killed, `ConnectionLost` is raised.
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

from headrace.client.decimal_json import parse_json
from headrace.client.errors import error_from, is_error
from headrace.errors import BadRequest, ConnectionLost, ServerFailed, ServerUnreachable

_PORTS = {"http": 80, "https": 443}
_CONNECT = 10.0  # seconds; a response has no time limit
_AT_ONCE = 1 << 16
OK = 200
KSQL_JSON, KSQL_LINES = "application/vnd.ksql.v1+json", "application/vnd.ksqlapi.delimited.v1"
"""Media types of requests and responses: one JSON document, or one per line."""


@dataclass(frozen=True)
class ServerAddress:
    """Address of a server: http(s)://HOST:PORT, optionally with a path."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> ServerAddress:
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            port = _PORTS[parts.scheme]
            if not parts.hostname or parts.query or parts.username:
                raise ValueError
            return cls(parts.scheme, parts.hostname, parts.port or port, parts.path.rstrip("/"))
        except (ValueError, KeyError):
            raise BadRequest(
                f'"{text}" is not a valid server address', fix="write it as in http://127.0.0.1:8088"
            ) from None

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}{self.path}"


@dataclass(frozen=True)
class Credentials:
    """Credentials that a client sends, and the CA certificates (a PEM file) that it trusts."""

    token: str | None = None
    ca: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)


NO_CREDENTIALS = Credentials()


class Exchange:
    """One request and its response on a connection of their own, which closes with it."""

    def __init__(
        self,
        address: ServerAddress,
        path: str,
        body: bytes | None = None,
        accept: str = KSQL_JSON,
        credentials: Credentials = NO_CREDENTIALS,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._connection = _connected(address, credentials)
        self._socket: socket.socket = self._connection.sock
        self._closed = False
        try:
            self._response = self._send(path, body, accept)
        except BaseException:
            self.close()
            raise

    def _send(self, path: str, body: bytes | None, accept: str) -> HTTPResponse:
        headers = {"Accept": accept, "Connection": "close", "Headrace-Notices": "1", **self._credentials.headers}
        if body is not None:
            headers["Content-Type"] = accept
        try:
            method = "GET" if body is None else "POST"
            self._connection.request(method, self._address.path + path, body, headers)
            return self._connection.getresponse()
        except (OSError, HTTPException) as error:
            raise self._lost(error) from error

    # -- response ---------------------------------------------------------------------------------------------------

    @property
    def notice(self) -> str:
        """Why the result of a query may be incomplete, for example because a query is starting; usually empty."""
        return self._response.headers.get("Headrace-Notice", "")

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def retry_after(self) -> float | None:
        """The seconds after which a server that refuses the request for now wants it again; None if it says nothing."""
        text = self._response.headers.get("Retry-After", "")
        return float(text) if text.isascii() and text.isdigit() else None

    def document(self) -> Any:
        """The whole response as one JSON document; raises if it is an error."""
        with self:
            try:
                body_read = self._response.read()
            except (OSError, HTTPException) as error:
                raise self._lost(error) from error
            document = self._read(body_read)
            if self._response.status != OK or is_error(document):
                raise error_from(self._response.status, document)
            return document

    def batches(self) -> Iterator[list[Any]]:
        """JSON documents, one per line, in batches as they arrive."""
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
        """The bytes that have arrived; empty at the end, or after `close`."""
        try:
            return self._response.read1(_AT_ONCE)
        except (OSError, HTTPException, ValueError, AttributeError) as error:
            # If `close` runs during a read, http.client's file object is gone.
            if self._closed:
                return b""
            raise self._lost(error) from error

    def _read(self, text: bytes) -> Any:
        try:
            return parse_json(text)
        except ValueError as error:
            raise ServerFailed(
                f"{self._address} responded with status {self._response.status} and no JSON: {_excerpt(text)}",
                fix="check that a headrace server listens at this address",
            ) from error

    def _lost(self, error: Exception) -> ConnectionLost:
        return ConnectionLost(
            f"the connection to {self._address} was lost: {error or type(error).__name__}",
            fix="check that the server runs, and which part of the request it processed, before you retry",
        )

    # -- close ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """May be called from any thread: a blocked reader returns with no more rows."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        self._socket.close()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connected(address: ServerAddress, credentials: Credentials) -> HTTPConnection:
    place = address.host, address.port
    try:
        if address.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(*place, timeout=_CONNECT, context=credentials.context)
        else:
            connection = HTTPConnection(*place, timeout=_CONNECT)
        connection.connect()
    except (OSError, HTTPException) as error:
        raise ServerUnreachable(
            f"no server responds at {address}: {error}", fix="start a server with `headrace up`, or use another address"
        ) from error
    connection.sock.settimeout(None)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


def _excerpt(text: bytes, most: int = 80) -> str:
    excerpt = text.decode(errors="replace").strip()
    return excerpt if len(excerpt) <= most else f"{excerpt[:most]} ..."
