"""One POST over HTTP, to an address that may be reached, within a time; redirects are not followed."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, InvalidURL
from urllib.parse import SplitResult, urlsplit

from headrace.deliver.contract import later
from headrace.deliver.reach import connected
from headrace.errors import DeliveryRefused

_PATIENCE = 10.0  # seconds that the other side may be silent
_WHOLE = 30.0  # seconds that an answer may take as a whole
_AGAIN = (408, 425, 429)
_PORTS = {"http": 80, "https": 443}


def post(url: str, body: bytes, headers: Mapping[str, str], private: str) -> int:
    """The status of the answer; what may pass by itself is raised. `private` lists addresses that may be reached."""
    status, wait = _answer(_checked(url), body, headers, private)
    if status in _AGAIN or status >= 500:
        raise later(f"the other side answered {status}", wait)
    return status


def _answer(url: SplitResult, body: bytes, headers: Mapping[str, str], private: str) -> tuple[int, float | None]:
    """The status, and how many seconds to wait if it says so."""
    host, port = url.hostname or "", url.port or _PORTS[url.scheme]
    try:
        with _opened(host, port, private, encrypted=url.scheme == "https") as opened, _cut_after(_WHOLE, opened):
            connection = HTTPConnection(host, port)
            connection.default_port = _PORTS[url.scheme]  # which is not named in the header Host
            connection.sock = opened
            connection.request("POST", f"{url.path or '/'}{'?' if url.query else ''}{url.query}", body, headers)
            answer = connection.getresponse()
            return answer.status, _seconds(answer.headers.get("Retry-After"))
    except ssl.SSLCertVerificationError as error:
        raise DeliveryRefused(f'"{host}" has no certificate to trust: {error.verify_message}') from error
    except (InvalidURL, ValueError) as error:  # a header, or a path, that cannot be sent; its text has the secret in it
        raise DeliveryRefused(f"the request cannot be made: {type(error).__name__}", fix="look at the URL") from None
    except (OSError, HTTPException) as error:
        raise later(f'"{host}" gave no answer: {error or type(error).__name__}') from error


def _opened(host: str, port: int, private: str, *, encrypted: bool) -> socket.socket:
    raw = connected(host, port, private, _PATIENCE)
    return ssl.create_default_context().wrap_socket(raw, server_hostname=host) if encrypted else raw


@contextmanager
def _cut_after(seconds: float, opened: socket.socket) -> Iterator[None]:
    """Who sends a byte now and then is not waited for."""
    timer = threading.Timer(seconds, _cut, [opened])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(opened: socket.socket) -> None:
    with suppress(OSError):  # it is closed
        socket.socket.shutdown(opened, socket.SHUT_RDWR)  # below TLS, which another thread is reading


def _checked(url: str) -> SplitResult:
    """What cannot be called is refused, and not told: it may hold a secret."""
    try:
        parts = urlsplit(url)
        if parts.scheme in _PORTS and parts.hostname and parts.username is None and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise DeliveryRefused("the URL cannot be called", fix="write https://host/path, without a user in it")


def is_callable(url: str) -> bool:
    """Whether a request to it can be made at all."""
    try:
        return bool(_checked(url)) and url.isascii() and url.isprintable() and " " not in url
    except DeliveryRefused:
        return False


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
