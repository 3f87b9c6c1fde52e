"""Floods over HTTP/2, before any authentication: the connection ends, and nobody else notices."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from h2.errors import ErrorCodes

from tests.attack.server import AttackedServer
from tests.http2_client import END_HEADERS, END_STREAM, Http2Client, raw_frame

_AT_ONCE = 10.0
"""Seconds, on a busy machine that also runs the attack, for what is answered at once."""
_SECONDS = 5.0
_GROWTH = 100 << 20
HEADERS, RESET, SETTINGS, PING, CONTINUATION = 1, 3, 4, 6, 9
HEAD = b"\x82\x86\x41\x09localhost\x04\x05/info"

FLOODS: dict[str, Callable[[int], bytes]] = {
    "streams that are reset at once (rapid reset)": lambda n: (
        raw_frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, HEAD) + raw_frame(RESET, 0, 2 * n + 1, b"\0\0\0\x08")
    ),
    "a head that never ends (CONTINUATION)": lambda n: raw_frame(CONTINUATION if n else HEADERS, 0, 1, b"x" * 16_000),
    "a head of empty frames": lambda n: raw_frame(CONTINUATION if n else HEADERS, 0, 1),
    "pings": lambda n: raw_frame(PING, 0, 0, bytes(8)),
    "changes of settings": lambda n: raw_frame(SETTINGS, 0, 0, b"\0\4\0\0\0" + bytes([n % 256])),
}


@pytest.mark.attack(
    "floods over HTTP/2: resets, CONTINUATION, pings, settings",
    "the connection ends with ENHANCE_YOUR_CALM, counted in /metrics; others are answered at once",
)
@pytest.mark.parametrize("flood", FLOODS.values(), ids=list(FLOODS))
def test_a_flood_ends_its_connection_and_delays_nobody(
    shared_attacked: AttackedServer, flood: Callable[[int], bytes]
) -> None:
    server = shared_attacked
    memory, rejections, codes = server.memory(), _rejections(server), set[int | None]()
    frames = [flood(n) for n in range(2_000)]
    with _flooded(server, frames, codes):
        end, slowest = time.monotonic() + _SECONDS, 0.0
        while time.monotonic() < end:
            slowest = max(slowest, server.get("/healthcheck").seconds)
    assert slowest < _AT_ONCE
    assert ErrorCodes.ENHANCE_YOUR_CALM in codes
    assert _rejections(server) > rejections
    assert server.memory() - memory < _GROWTH
    with Http2Client("127.0.0.1", server.port) as client:
        assert client.get("/info").status == 200


@contextmanager
def _flooded(server: AttackedServer, frames: list[bytes], codes: set[int | None]) -> Iterator[None]:
    """Two clients send the frames again and again, each time on a new connection."""
    done = threading.Event()

    def attack() -> None:
        while not done.is_set():
            with Http2Client("127.0.0.1", server.port) as client:
                codes.add(client.flood(frames))

    threads = [threading.Thread(target=attack) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def _rejections(server: AttackedServer) -> float:
    text = server.get("/metrics").body.decode()
    return sum(
        float(value) for value in re.findall(r'headrace_http_rejections_total\{reason="http2-\w+"\} (\S+)', text)
    )
