"""HTTP/2 over real sockets: streams, flow control, the ends of streams and connections, and clients that misbehave."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from h2.errors import ErrorCodes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.serve.http import http2, http2_budget, limits
from headrace.serve.http.http2_frames import PREFACE
from headrace.serve.http.server import Server
from tests.http2_client import END_HEADERS, END_STREAM, Http2Client, raw_frame
from tests.wait import wait_until

PIECE = b"x" * 10_000
MANY = 500  # pieces
HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION, UNKNOWN = 1, 2, 3, 4, 5, 6, 7, 8, 9, 77
HEAD = b"\x82\x84\x86\x41\x09localhost"  # GET http://localhost/


class App:
    """Paths are what it does; it counts requests in progress, those that were disconnected, and pieces sent."""

    def __init__(self) -> None:
        self.running = self.begun = self.disconnected = self.sent = self.received = 0
        self.release = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        self.running, self.begun = self.running + 1, self.begun + 1
        try:
            await getattr(self, "on_" + scope["path"].strip("/").replace("/", "_"), self.on_echo)(scope, receive, send)
        finally:
            self.running -= 1

    async def on_echo(self, scope: Any, receive: Any, send: Any) -> None:
        body = await self._body(receive)
        told = f"{scope['http_version']} {scope['method']} {scope['path']} ".encode() + body
        await respond(send, told)

    async def on_count(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"%d" % len(await self._body(receive)))

    async def on_headers(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"\n".join(b"%b=%b" % one for one in scope["headers"]))

    async def on_stream(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(MANY):
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            self.sent += 1
        await send({"type": "http.response.body", "body": b""})
        self.disconnected += (await receive())["type"] == "http.disconnect"

    async def on_one_message(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, PIECE * MANY)

    async def on_wait(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnected += 1

    async def on_ignore(self, scope: Any, receive: Any, send: Any) -> None:
        while not self.release:
            await asyncio.sleep(0.02)

    async def on_hold(self, scope: Any, receive: Any, send: Any) -> None:
        while not self.release:
            await asyncio.sleep(0.02)
        await respond(send, b"%d" % len(await self._body(receive)))

    async def on_early(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"no")

    async def on_fail(self, scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("expected")

    async def on_fail_late(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("expected")

    async def _body(self, receive: Any) -> bytes:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
            self.received += len(message.get("body", b""))
        return body


async def respond(send: Any, body: bytes) -> None:
    headers = [(b"Content-Type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def server(app: App) -> Iterator[Server]:
    with Server(app).running() as server:
        yield server
        app.release = True


@pytest.fixture
def client(server: Server) -> Iterator[Http2Client]:
    with Http2Client(server.host, server.port) as client:
        yield client


def another(server: Server, **options: Any) -> Http2Client:
    return Http2Client(server.host, server.port, **options)


# -- requests -------------------------------------------------------------------------------------------------------


def test_streams_are_interleaved(client: Http2Client) -> None:
    streams = [client.request(f"/{n}", method="POST", end=False) for n in range(100)]
    for stream in reversed(streams):
        client.upload(stream, b"body %d" % stream)
    for n, stream in enumerate(streams):
        assert client.response(stream).data == b"2 POST /%d body %d" % (n, stream)


def test_a_connection_serves_many_requests(client: Http2Client) -> None:
    for n in range(500):
        response = client.get(f"/{n}")
        assert (response.status, response.data) == (200, b"2 GET /%d " % n)
        assert response.headers[b"content-type"] == b"text/plain"
        assert b"connection" not in response.headers


def test_the_head_of_a_request_is_passed_to_the_application(client: Http2Client) -> None:
    stream = client.h2.get_next_available_stream_id()
    client.request("/headers?a=%20b", headers={"cookie": "a=1", "x-many": "1"})
    assert sorted(client.response(stream).data.split(b"\n")) == [b"cookie=a=1", b"host=localhost", b"x-many=1"]


def test_a_head_request_gets_no_body(client: Http2Client) -> None:
    response = client.get("/", method="HEAD")
    assert (response.status, response.data, response.ended) == (200, b"", True)


def test_a_client_that_expects_it_is_told_to_continue(client: Http2Client) -> None:
    stream = client.request("/count", method="POST", headers={"expect": "100-continue"}, end=False)
    told: list[str] = []
    client.until(lambda: bool(told.extend(type(one).__name__ for one in client.read()) or told))
    while "InformationalResponseReceived" not in told:
        told.extend(type(one).__name__ for one in client.read())
    client.upload(stream, b"body")
    assert client.response(stream).data == b"4"


@pytest.mark.parametrize("path", ["nowhere", "http://localhost/", "/\xe4"])
def test_a_path_that_is_none_ends_the_stream_only(client: Http2Client, path: str) -> None:
    assert client.get(path).reset == ErrorCodes.PROTOCOL_ERROR
    assert client.get("/").status == 200


def test_a_failure_of_the_application_is_an_error_500(client: Http2Client) -> None:
    assert client.get("/fail").status == 500
    assert client.get("/fail/late").reset == ErrorCodes.INTERNAL_ERROR
    assert client.get("/").status == 200


# -- flow control ---------------------------------------------------------------------------------------------------


def test_a_large_upload_arrives(client: Http2Client, app: App) -> None:
    stream = client.request("/count", method="POST", end=False)
    client.upload(stream, PIECE * 300)
    assert client.response(stream).data == b"3000000"


def test_an_upload_that_is_not_read_is_bounded(client: Http2Client, app: App) -> None:
    """By the windows, per stream and connection; when it is read, it goes on."""
    client.get("/")
    streams = [client.request("/hold", method="POST", end=False) for _ in range(8)]
    left = dict.fromkeys(streams, 100_000)
    for stream in streams:
        while room := min(client.h2.local_flow_control_window(stream), 16_384, left[stream] - 1):
            client.h2.send_data(stream, b"x" * room)
            left[stream] -= room
            client.flush()
    client.get("/")
    assert sum(100_000 - one for one in left.values()) == http2.CONNECTION_WINDOW
    app.release = True
    for stream in streams:
        client.upload(stream, b"x" * left[stream])
        assert client.response(stream).data == b"100000"


def test_an_upload_may_be_answered_before_its_end(client: Http2Client) -> None:
    for _ in range(20):  # what was not read does not use up the window of the connection
        stream = client.request("/early", method="POST", end=False)
        client.h2.send_data(stream, b"x" * 16_000)
        client.flush()
        response = client.response(stream)
        assert (response.status, response.data) == (200, b"no")
        client.until(lambda response=response: response.reset is not None)
        assert response.reset == ErrorCodes.NO_ERROR


@pytest.mark.parametrize("path", ["/stream", "/one/message"])
@pytest.mark.parametrize("window", [5_000, 65_535, 1 << 20])
def test_a_large_download_arrives(server: Server, path: str, window: int) -> None:
    with another(server, window=window) as client:
        assert client.get(path).data == PIECE * MANY


def test_a_client_that_reads_nothing_of_one_stream_may_read_others(client: Http2Client, app: App) -> None:
    client.acknowledges = False
    client.request("/stream")
    wait_until(lambda: app.sent > 0)
    client.h2.increment_flow_control_window(1 << 20)
    for n in range(10):
        assert client.get(f"/{n}").status == 200
    assert app.sent < 65_536 / len(PIECE)
    assert app.running == 1


def test_a_response_that_nobody_reads_is_cut_off(
    client: Http2Client, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STALL_TIMEOUT", 0.5)
    client.acknowledges = False
    stream = client.request("/stream")
    assert client.response(stream).reset == ErrorCodes.CANCEL
    wait_until(lambda: app.disconnected == 1)
    client.h2.increment_flow_control_window(1 << 20)
    assert client.get("/").status == 200


def test_a_client_that_reads_no_bytes_at_all_gets_no_more(server: Server, app: App) -> None:
    with another(server) as client:
        client.send_bytes(raw_frame(SETTINGS, 0, 0, b"\x00\x04\x7f\xff\xff\xff"))  # endless windows
        client.send_bytes(raw_frame(WINDOW, 0, 0, b"\x7f\x00\x00\x00"))
        for _ in range(20):
            client.request("/stream")
        before = -1
        while before != app.sent:  # until it stands
            before = app.sent
            time.sleep(0.5)
        assert app.sent < MANY
    wait_until(lambda: app.running == 0)


# -- ends -----------------------------------------------------------------------------------------------------------


def test_the_application_is_told_that_a_stream_was_reset(client: Http2Client, app: App) -> None:
    stream = client.request("/wait")
    wait_until(lambda: app.running == 1)
    client.h2.reset_stream(stream, ErrorCodes.CANCEL)
    client.flush()
    wait_until(lambda: app.disconnected == 1)
    assert client.get("/").status == 200


def test_the_application_is_told_that_a_client_is_gone(client: Http2Client, app: App) -> None:
    for _ in range(5):
        client.request("/wait")
    wait_until(lambda: app.running == 5)
    client.wire.close()
    wait_until(lambda: app.disconnected == 5)


def test_streams_in_progress_finish_after_the_goaway_of_a_client(client: Http2Client, app: App) -> None:
    stream = client.request("/hold")
    wait_until(lambda: app.running == 1)
    client.send_bytes(raw_frame(GOAWAY, 0, 0, bytes(8)))
    app.release = True
    assert client.response(stream).status == 200
    assert client.read_to_end() == ErrorCodes.NO_ERROR


def test_a_server_that_stops_says_goodbye_and_finishes(app: App) -> None:
    with Server(app).running() as server:
        client = another(server)
        client.request("/wait")
        wait_until(lambda: app.running == 1)
        server.stop()
        assert client.read_to_end() == ErrorCodes.NO_ERROR
    assert app.disconnected == 1
    client.wire.close()


def test_requests_that_go_on_after_their_streams_are_reset_count(client: Http2Client, app: App) -> None:
    for n in range(http2_budget.MAX_STREAMS):
        stream = client.request("/ignore")
        wait_until(lambda n=n: app.running == n + 1)
        client.h2.reset_stream(stream)
    assert client.get("/").reset == ErrorCodes.REFUSED_STREAM
    app.release = True
    wait_until(lambda: app.running == 0)
    assert client.get("/").status == 200


def test_requests_of_one_address_are_limited(server: Server, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_budget, "MAX_STREAMS_PER_ADDRESS", 10)
    with another(server) as first, another(server) as second:
        for _ in range(10):
            first.request("/wait")
        wait_until(lambda: app.running == 10)
        assert second.get("/").reset == ErrorCodes.REFUSED_STREAM
        first.wire.close()
        wait_until(lambda: app.running == 0)
        assert second.get("/").status == 200


# -- clients that misbehave -----------------------------------------------------------------------------------------


def request(stream: int) -> bytes:
    return raw_frame(HEADERS, END_HEADERS | END_STREAM, stream, HEAD)


FLOODS = {
    "pings": lambda n: raw_frame(PING, 0, 0, bytes(8)),
    "settings": lambda n: raw_frame(SETTINGS, 0, 0),
    "acknowledged settings": lambda n: raw_frame(SETTINGS, 1, 0),
    "priorities": lambda n: raw_frame(PRIORITY, 0, 2 * n + 1, bytes(5)),
    "windows of the connection": lambda n: raw_frame(WINDOW, 0, 0, b"\0\0\0\1"),
    "windows of a stream": lambda n: raw_frame(WINDOW, 0, 1, b"\0\0\0\1"),
    "unknown frames": lambda n: raw_frame(UNKNOWN, 0, 0, b"x" * 100),
    "resets of a stream": lambda n: raw_frame(RESET, 0, 1, bytes(4)),
    "requests that are reset": lambda n: request(2 * n + 3) + raw_frame(RESET, 0, 2 * n + 3, bytes(4)),
    "empty data": lambda n: raw_frame(0, 0, 1),
    "padding": lambda n: raw_frame(0, 8, 1, b"\x09" + bytes(9)),
    "data after the end": lambda n: raw_frame(0, 0, 3, b"x"),
    "heads": lambda n: raw_frame(HEADERS, END_STREAM, 3, HEAD) if not n else raw_frame(CONTINUATION, 0, 3),
    "endless heads": lambda n: raw_frame(HEADERS if not n else CONTINUATION, 0, 3, b"x" * 16_384),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=list(FLOODS))
def test_a_flood_ends_the_connection(server: Server, app: App, flood: Any) -> None:
    rejected = limits.REJECTIONS.total()
    with another(server) as client:
        client.send_bytes(raw_frame(HEADERS, END_HEADERS, 1, b"\x83" + HEAD[1:]))  # a POST
        if flood is FLOODS["data after the end"]:
            client.send_bytes(request(3) + raw_frame(RESET, 0, 3, bytes(4)))
        client.read()
        assert client.flood(flood(n) for n in range(5_000)) == ErrorCodes.ENHANCE_YOUR_CALM
        assert app.begun <= 1_001
    with another(server) as client:
        assert client.get("/").status == 200
    wait_until(lambda: app.running == 0)
    assert limits.REJECTIONS.total() == rejected + 1


def test_an_address_gains_nothing_by_new_connections(server: Server, app: App) -> None:
    resets = FLOODS["requests that are reset"]
    for _ in range(30):
        with another(server) as client:
            client.flood(resets(n) for n in range(200))
    assert app.begun < 30 * 100
    with another(server) as client:
        for _ in range(300):  # who resets nothing is served
            assert client.get("/").status == 200


def test_a_client_is_served_while_another_of_its_address_floods(server: Server) -> None:
    for _ in range(20):
        with another(server) as client:
            client.flood(FLOODS["pings"](n) for n in range(1_500))
        with another(server) as client:
            assert client.get("/").status == 200


def test_a_client_that_takes_most_responses_may_reset_some(client: Http2Client) -> None:
    for _ in range(300):
        assert client.get("/").status == 200
        client.h2.reset_stream(client.request("/wait"))
        client.flush()
    assert client.get("/").status == 200


def test_a_head_that_is_small_only_when_compressed_is_refused(server: Server) -> None:
    entry = b"\x40\x01a" + b"\x7f\xa1\x1e" + b"x" * 4_000  # added to the table of the connection ...
    with another(server) as client:
        client.read()
        assert client.flood([raw_frame(HEADERS, END_HEADERS, 1, HEAD + entry + b"\xbe" * 100)]) is not None
    with another(server) as client:
        assert client.get("/").status == 200


def test_headers_are_limited_as_documented(client: Http2Client) -> None:
    fits = {f"x-{n}": "y" * 900 for n in range(60)}
    assert client.get("/count", headers=fits).status == 200  # type: ignore[arg-type]
    client.request("/count", headers={f"x-{n}": "y" * 900 for n in range(80)})
    assert client.read_to_end() == ErrorCodes.ENHANCE_YOUR_CALM


def test_a_head_that_trickles_times_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEAD_TIMEOUT", 1.0)
    with another(server) as client:
        client.get("/")
        client.send_bytes(raw_frame(HEADERS, 0, 3, HEAD))
        assert client.read_to_end() is not None


def test_a_connection_without_streams_is_closed_whatever_else_it_sends(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "IDLE_TIMEOUT", 1.0)
    with another(server) as client:
        client.get("/")
        began = time.monotonic()
        while not client.closed and time.monotonic() < began + 20:
            client.h2.ping(bytes(8))
            client.flush()
            client.read()
            time.sleep(0.02)
        assert client.goaway == ErrorCodes.NO_ERROR


def test_a_frame_that_is_too_long_ends_the_connection(client: Http2Client) -> None:
    client.read()
    assert client.flood([raw_frame(0, 0, 1, b"x" * 20_000)]) == ErrorCodes.FRAME_SIZE_ERROR


@pytest.mark.parametrize("rest", [b"", b"x" * 100], ids=["half of it", "something else"])
def test_a_preface_that_does_not_go_on_is_no_http_2(
    server: Server, monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    monkeypatch.setattr(limits, "HEAD_TIMEOUT", 1.0)
    with closing(socket.create_connection((server.host, server.port), timeout=20)) as wire:
        wire.sendall(PREFACE[:20] + rest)
        while wire.recv(65_536):
            pass


FRAMES = st.one_of(
    st.builds(raw_frame, st.integers(0, 12), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40)),
    st.builds(
        raw_frame, st.sampled_from([RESET, PRIORITY, WINDOW]), st.just(0), st.integers(0, 9), st.just(b"\0\0\0\1")
    ),
    st.builds(raw_frame, st.just(HEADERS), st.integers(0, 5), st.sampled_from([1, 3, 5, 7, 9]), st.just(HEAD)),
    st.builds(raw_frame, st.just(0), st.integers(0, 1), st.sampled_from([1, 3, 5, 7, 9]), st.binary(max_size=40)),
    st.binary(max_size=20),
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(frames=st.lists(FRAMES, max_size=15), step=st.sampled_from([1, 7, 10_000]))
def test_no_sequence_of_frames_harms_others(server: Server, app: App, frames: list[bytes], step: int) -> None:
    data = PREFACE + raw_frame(SETTINGS, 0, 0) + b"".join(frames)
    with closing(socket.create_connection((server.host, server.port), timeout=20)) as wire:
        for start in range(0, len(data), step):
            try:
                wire.sendall(data[start : start + step])
            except ConnectionError:
                break
        with another(server) as client:
            assert client.get("/").status == 200
    wait_until(lambda: app.running == 0)
