"""Clients that ask for much and read nothing, over each protocol: each of them costs little."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.attack.server import AttackedServer
from tests.http2_client import END_HEADERS, END_STREAM, Http2Client, raw_frame

_READERS = 20
_STREAMS = 2  # of a connection
_RECORDS, _RECORD_BYTES = 1_000, 100_000
_GROWTH = 100 << 20
"""Bytes for all readers together, and what the server needs to read the topic. They ask for 2 GB."""
_TAIL = "/api/v1/topics/big/tail?from=beginning"
_SECONDS = 6.0
_WAITS = 60_000  # bytes: a window of HTTP/2


@pytest.fixture(scope="module")
def filled(shared_attacked: AttackedServer) -> AttackedServer:
    """A server with a topic of 100 MB, which one client has read."""
    assert shared_attacked.post("/api/v1/topics", {"name": "big"}).status < 300
    batch = [{"value": "x" * _RECORD_BYTES}] * (_RECORDS // 10)
    for _ in range(10):
        assert shared_attacked.post("/api/v1/topics/big/records", batch).status < 300
    with _connect(shared_attacked) as wire:
        wire.sendall(f"GET {_TAIL} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        left = _RECORDS * _RECORD_BYTES
        while left > 0:
            left -= len(wire.recv(1 << 20))
    return shared_attacked


def _connect(server: AttackedServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def _http1(server: AttackedServer) -> socket.socket:
    wire = _connect(server)
    wire.sendall(f"GET {_TAIL} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return wire


def _pipelined(server: AttackedServer) -> socket.socket:
    wire = _connect(server)
    wire.sendall(f"GET {_TAIL} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode() * 90)
    return wire


def _websocket(server: AttackedServer) -> socket.socket:
    wire = _connect(server)
    key = base64.b64encode(bytes(16)).decode()
    head = f"GET {_TAIL} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    wire.sendall(f"{head}sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n".encode())
    return wire


def _http2_windows(server: AttackedServer) -> socket.socket:
    """Streams whose windows stay closed."""
    client = Http2Client("127.0.0.1", server.port)
    client.acknowledges = False
    for _ in range(_STREAMS):
        client.request(_TAIL)
    return client.wire


def _http2_socket(server: AttackedServer) -> socket.socket:
    """Endless windows on a socket that is never read."""
    client = Http2Client("127.0.0.1", server.port)
    client.send_bytes(raw_frame(4, 0, 0, b"\0\4\x7f\xff\xff\xff") + raw_frame(8, 0, 0, b"\x7f\0\0\0"))
    head = b"\x82\x86\x41\x09localhost\x04" + bytes([len(_TAIL)]) + _TAIL.encode()
    client.send_bytes(b"".join(raw_frame(1, END_HEADERS | END_STREAM, 2 * n + 1, head) for n in range(_STREAMS)))
    return client.wire


READERS = (_http1, _pipelined, _websocket, _http2_windows, _http2_socket)


@pytest.mark.attack(
    "readers of a large result that read nothing, over HTTP/1.1, HTTP/2 and WebSocket",
    "their memory is bounded; others are answered",
)
@pytest.mark.parametrize("reader", READERS, ids=[one.__name__.strip("_") for one in READERS])
def test_a_reader_that_reads_nothing_costs_little(
    filled: AttackedServer, reader: Callable[[AttackedServer], socket.socket]
) -> None:
    before = peak = filled.memory()
    with ExitStack() as stack:
        wires = [stack.enter_context(reader(filled)) for _ in range(_READERS)]
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            assert filled.get("/healthcheck").status == 200
            peak = max(peak, filled.memory())
        for wire in wires:  # what has been waiting for it
            assert len(wire.recv(_WAITS, socket.MSG_WAITALL)) == _WAITS
    assert peak - before < _GROWTH
