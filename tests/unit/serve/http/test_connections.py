"""Connections over real sockets: protocol detection, and back pressure for clients that do not read."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import h2.config
import h2.connection
import pytest

from headrace.serve.http.http2_frames import PREFACE
from headrace.serve.http.limits import MAX_HEAD_BYTES
from headrace.serve.http.server import Server
from tests.wait import wait_until

PIECE = 10_000
MUCH = 20_000  # pieces


class App:
    """Says which version was http2_connection and what came; `/stream` sends much, and counts it."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/stream":
            for _ in range(MUCH):
                await send({"type": "http.response.body", "body": b"x" * PIECE, "more_body": True})
                self.sent += 1
                await asyncio.sleep(0)
        said = f"{scope['http_version']} {body.decode()}".encode()
        await send({"type": "http.response.body", "body": said, "more_body": False})


@contextmanager
def serving() -> Iterator[tuple[App, socket.socket]]:
    """The app, and a connection to it."""
    app = App()
    with (
        Server(app).running() as server,
        closing(socket.create_connection((server.host, server.port), timeout=10)) as wire,
    ):
        yield app, wire


def answer(wire: socket.socket) -> bytes:
    got = b""
    while data := wire.recv(65536):
        got += data
        if got.endswith(b"0\r\n\r\n"):
            break
    return got


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_a_request_may_arrive_in_pieces(step: int) -> None:
    request = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhello"
    with serving() as (_, wire):
        for _ in range(2):  # also the second one of a connection
            for start in range(0, len(request), step):
                wire.sendall(request[start : start + step])
            assert b"1.1 hello" in answer(wire)


def test_a_request_that_starts_like_http_2_is_http_1() -> None:
    with serving() as (_, wire):
        wire.sendall(b"P")
        wire.sendall(b"UT / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
        assert b"1.1 " in answer(wire)


def test_an_endless_head_of_the_first_request_is_refused() -> None:
    with serving() as (_, wire):
        wire.sendall(b"GET / HTTP/1.1\r\nx: " + b"y" * MAX_HEAD_BYTES)
        assert wire.recv(1000).startswith(b"HTTP/1.1 431 ")
        assert wire.recv(1000) == b""


def test_an_upgrade_to_something_unknown_does_not_hide_a_second_request() -> None:
    hidden = b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n"
    head = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: tls/1.0\r\n\r\n"
    with serving() as (app, wire):
        wire.sendall(head + hidden)
        while wire.recv(65536):
            pass
        assert app.sent == 0


def http2_connection(wire: socket.socket, path: str) -> h2.connection.H2Connection:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    names = {":method": "GET", ":path": path, ":authority": "localhost", ":scheme": "http"}
    connection.send_headers(1, list(names.items()), end_stream=True)
    data = connection.data_to_send()
    assert data.startswith(PREFACE)
    for byte in data[: len(PREFACE)]:
        wire.sendall(bytes([byte]))
    wire.sendall(data[len(PREFACE) :])
    return connection


def test_http_2_in_clear_text_is_served() -> None:
    with serving() as (_, wire):
        connection, got = http2_connection(wire, "/"), b""
        while b"2 " not in got:
            for event in connection.receive_data(wire.recv(65536)):
                got += getattr(event, "data", None) or b""


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_client_that_does_not_read_gets_back_pressure(version: str) -> None:
    with serving() as (app, wire):
        if version == "2":
            http2_connection(wire, "/stream")
        else:
            wire.sendall(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
        wait_until(lambda: app.sent > 0)
        before = -1
        while before != app.sent:  # until it stands
            before = app.sent
            time.sleep(0.3)
        assert app.sent < MUCH / 4


def test_a_server_stops_while_a_client_is_streaming() -> None:
    begun = time.monotonic()
    with serving() as (app, wire):
        http2_connection(wire, "/stream")
        wait_until(lambda: app.sent > 0)
    assert time.monotonic() - begun < 10
