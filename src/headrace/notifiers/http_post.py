"""Sends one HTTP POST to an allowed address, with a time limit; does not follow redirects."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, InvalidURL
from urllib.parse import SplitResult, urlsplit

from headrace.errors import DeliveryRefused
from headrace.notifiers.contract import retry_later
from headrace.notifiers.egress import connect

_PATIENCE = 10.0  # seconds without data from the server
_WHOLE = 30.0  # seconds for the whole response
_RETRY_STATUSES = (408, 425, 429)
_PORTS = {"http": 80, "https": 443}


def post(url: str, body: bytes, headers: Mapping[str, str], private: str) -> int:
    """Returns the response's status; raises on errors that a retry may fix. `private` lists allowed addresses."""
    status, wait = _answer(_checked(url), body, headers, private)
    if status in _RETRY_STATUSES or status >= 500:
        raise retry_later(f"the other side answered {status}", wait)
    return status


def _answer(url: SplitResult, body: bytes, headers: Mapping[str, str], private: str) -> tuple[int, float | None]:
    """The status, and the seconds of a Retry-After header if there is one."""
    host, port = url.hostname or "", url.port or _PORTS[url.scheme]
    try:
        with _opened(host, port, private, encrypted=url.scheme == "https") as opened, _cut_after(_WHOLE, opened):
            connection = HTTPConnection(host, port)
            connection.default_port = _PORTS[url.scheme]  # the default port is left out of the Host header
            connection.sock = opened
            connection.request("POST", f"{url.path or '/'}{'?' if url.query else ''}{url.query}", body, headers)
            answer = connection.getresponse()
            return answer.status, _seconds(answer.headers.get("Retry-After"))
    except ssl.SSLCertVerificationError as error:
        raise DeliveryRefused(f'"{host}" has a certificate that is not trusted: {error.verify_message}') from error
    except (InvalidURL, ValueError) as error:  # an invalid header or path; the error text has the secret in it
        raise DeliveryRefused(f"the request cannot be sent: {type(error).__name__}", fix="check the URL") from None
    except (OSError, HTTPException) as error:
        raise retry_later(f'"{host}" did not respond: {error or type(error).__name__}') from error


def _opened(host: str, port: int, private: str, *, encrypted: bool) -> socket.socket:
    raw = connect(host, port, private, _PATIENCE)
    return ssl.create_default_context().wrap_socket(raw, server_hostname=host) if encrypted else raw


@contextmanager
def _cut_after(seconds: float, opened: socket.socket) -> Iterator[None]:
    """Bounds the whole exchange, against servers that send a byte now and then."""
    timer = threading.Timer(seconds, _cut, [opened])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(opened: socket.socket) -> None:
    with suppress(OSError):  # already closed
        socket.socket.shutdown(opened, socket.SHUT_RDWR)  # below TLS, because another thread is reading through it


def _checked(url: str) -> SplitResult:
    """Refuses an invalid URL without showing it: it may contain a secret."""
    try:
        parts = urlsplit(url)
        if parts.scheme in _PORTS and parts.hostname and parts.username is None and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise DeliveryRefused("the URL is not valid", fix="write https://host/path, without user information")


def is_valid_url(url: str) -> bool:
    """Whether a request to the URL is possible at all."""
    try:
        return bool(_checked(url)) and url.isascii() and url.isprintable() and " " not in url
    except DeliveryRefused:
        return False


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
