"""What comes in too large, too deep, too often or too slowly, over real sockets."""

from __future__ import annotations

import gzip
import http.client
import json
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.access.secret_files import find_local_secret
from headrace.contracts import Append
from headrace.control.node import Node
from headrace.lang.contract import MAX_STATEMENTS
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.serve.api.log_io.record_decoder import MAX_PRODUCE_BYTES as MOST_OF_RECORDS
from headrace.serve.api.streaming import append_signal
from headrace.serve.application import application
from headrace.serve.http import limits as http_limits
from headrace.serve.http import request_body
from headrace.serve.http.connections import ConnectionLimits
from headrace.serve.http.request_body import MAX_STATEMENTS_BYTES
from headrace.serve.http.server import Server
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere
from tests.unit.serve.api.conftest import Client
from tests.unit.serve.api.websocket_client import Socket
from tests.wait import wait_until

STREAM = "CREATE STREAM clicks (n INT) WITH (kafka_topic='clicks', format='JSON', partitions=1);"
TAKES_STATEMENTS = {
    "/ksql": {"ksql": "SHOW STREAMS;"},
    "/query": {"ksql": "SELECT * FROM clicks;"},
    "/query-stream": {"sql": "SELECT * FROM clicks;"},
    "/close-query": {"queryId": "a"},
    "/api/v1/statements": {"text": "SHOW STREAMS;"},
}
TAKES = {**dict.fromkeys(TAKES_STATEMENTS, MAX_STATEMENTS_BYTES), "/api/v1/topics/clicks/records": MOST_OF_RECORDS}


@contextmanager
def serving(folder: Path, limits: ConnectionLimits | None = None, **settings: Any) -> Iterator[tuple[Node, Client]]:
    with (
        EmbeddedLog(folder) as log,
        Node(log, Settings.of(storage_data=folder, **settings), isolation=Nowhere()) as node,
        Server(application(node), limits=limits).running() as server,
    ):
        node.execute(STREAM)
        yield node, Client(server.host, server.port)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("limits") / "data") as (_, client):
        yield client


def code_of(client: Client, path: str, body: Any, **headers: str) -> tuple[int, str]:
    status, told, _ = client.raw("POST", path, body, {"content-type": "application/json", **headers})
    return status, json.loads(told)["code"]


# -- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "most"), TAKES.items())
@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "in chunks"])
def test_a_body_that_is_too_large_is_refused(client: Client, path: str, most: int, chunked: bool) -> None:
    body = b'{"ksql": "' + b"x" * most + b'"}'
    parts = (body[at : at + 65536] for at in range(0, len(body), 65536))
    status, code = code_of(client, path, parts if chunked else body)
    assert (status in (400, 413), code) == (True, "body-too-large")


@pytest.mark.parametrize("path", TAKES)
def test_a_body_that_is_too_large_is_refused_over_http_2(client: Client, path: str, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b" " * (TAKES[path] + 1))
    address = f"http://127.0.0.1:{client.port}{path}"
    data = ["-H", "content-type: application/json", "-H", "expect:", "--data-binary", f"@{tmp_path / 'body'}"]
    command = ["curl", "-s", "--max-time", "60", "--http2-prior-knowledge", *data, address]
    told = subprocess.run(command, capture_output=True, check=False).stdout
    assert json.loads(told)["code"] == "body-too-large"


@pytest.mark.parametrize("path", TAKES)
def test_a_compressed_body_is_refused(client: Client, path: str) -> None:
    packed = gzip.compress(b" " * (1 << 20))
    assert code_of(client, path, packed, **{"content-encoding": "gzip"}) in [
        (400, "unknown-content-type"),
        (415, "unknown-content-type"),
    ]


@pytest.mark.parametrize("path", TAKES)
@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000, "[1e999999999"])
def test_json_with_deep_nesting_or_huge_numbers_is_a_bad_request(client: Client, path: str, value: str) -> None:
    status, _ = code_of(client, path, ('{"ksql": ' + value + "}").encode())
    assert status == 400


@pytest.mark.parametrize("first", ["[" * 100_000, '{"target": ' * 50_000])
def test_an_invalid_first_line_of_inserts_is_a_bad_request(client: Client, first: str) -> None:
    assert code_of(client, "/inserts-stream", first.encode() + b"\n") == (400, "bad-request")


def test_too_many_statements_are_refused_before_any_is_executed(client: Client) -> None:
    text = "CREATE STREAM first (n INT) WITH (kafka_topic='clicks', format='JSON');" + ";" * MAX_STATEMENTS
    assert code_of(client, "/ksql", json.dumps({"ksql": text}).encode()) == (400, "too-many-statements")
    assert code_of(client, "/api/v1/statements", json.dumps({"text": text}).encode()) == (400, "too-many-statements")
    _, told, _ = client.raw("POST", "/ksql", json.dumps({"ksql": "SHOW STREAMS;"}))
    assert [stream["name"] for stream in json.loads(told)[0]["streams"]] == ["CLICKS"]


# -- questions ------------------------------------------------------------------------------------------------------


def filled(node: Node, count: int) -> None:
    node.log.append([Append("clicks", [Record(b'{"N": %d}' % n) for n in range(count)])])


@pytest.mark.parametrize(
    "text", ["SELECT * FROM clicks;", "SELECT * FROM clicks WHERE n < 0;", "SELECT n FROM clicks ORDER BY n;"]
)
def test_a_query_that_exceeds_its_time_limit_fails(tmp_path: Path, text: str) -> None:
    with serving(tmp_path / "data", query_pull_timeout=timedelta(microseconds=1)) as (node, client):
        filled(node, 10)
        status, told, _ = client.raw("POST", "/query", json.dumps({"ksql": text}))
        assert (status, json.loads(told)["code"]) == (400, "query-time-limit-exceeded")
        assert "query.pull_timeout" in json.loads(told)["fix"]


def test_a_query_with_too_many_rows_fails(tmp_path: Path) -> None:
    with serving(tmp_path / "data", query_pull_max_rows=10) as (node, client):
        filled(node, 11)
        status, told, _ = client.raw("POST", "/query", json.dumps({"ksql": "SELECT * FROM clicks;"}))
        assert (status, json.loads(told)["code"]) == (400, "too-many-rows")
        assert "LIMIT" in json.loads(told)["fix"]
        status, told, _ = client.raw("POST", "/query", json.dumps({"ksql": "SELECT * FROM clicks LIMIT 10;"}))
        assert status == 200
        assert sum("row" in one for one in json.loads(told)) == 10


def test_the_number_of_push_queries_is_limited(tmp_path: Path) -> None:
    body = json.dumps({"sql": "SELECT * FROM clicks EMIT CHANGES;"})
    with serving(tmp_path / "data", query_max_push_queries=1) as (_, client):
        going = [http.client.HTTPConnection(client.host, client.port, timeout=30)]
        for one in going:
            one.request("POST", "/query-stream", body)
            assert one.getresponse().status == 200
        status, told, _ = client.raw("POST", "/query-stream", body)
        assert (status, json.loads(told)["code"]) == (503, "too-many-readers")
        status, told, _ = client.raw("GET", "/api/v1/watch?sql=SELECT%20*%20FROM%20clicks%20EMIT%20CHANGES")
        assert (status, json.loads(told)["code"]) == (503, "too-many-readers")
        for one in going:
            one.close()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/query-stream", {"sql": "SELECT * FROM clicks EMIT CHANGES;"}),
        ("/query", {"ksql": "PRINT clicks;"}),
        ("/api/v1/watch?sql=SELECT%20*%20FROM%20clicks%20EMIT%20CHANGES", None),
        ("/api/v1/topics/clicks/tail", None),
    ],
    ids=["push query", "PRINT", "watch", "tail"],
)
def test_one_user_leaves_push_queries_and_tails_for_the_others(
    tmp_path: Path, path: str, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_signal, "MAX_READERS", 4)
    with serving(tmp_path / "data", query_max_push_queries=4) as (_, client), ExitStack() as stack:

        def status(headers: dict[str, str]) -> tuple[int, str | None]:
            one = http.client.HTTPConnection(client.host, client.port, timeout=30)
            stack.callback(one.close)
            one.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
            answer = one.getresponse()
            return answer.status, answer.getheader("retry-after")

        assert [status({})[0] for _ in range(2)] == [200, 200]
        assert status({}) == (429, "1")
        secret = find_local_secret(tmp_path / "data")
        assert status({"authorization": f"Bearer {secret}"})[0] == 200


def test_the_first_line_of_rows_and_the_rest_of_a_line_must_arrive_in_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "_IDLE_SECONDS", 1.0)
    head = b"POST /inserts-stream HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"
    for begun in (b"", b"\n \n", b'{"target": "CLI', b'{"target": "CLICKS"}\n{"N": 1}\n{"N'):
        with connected(client) as wire:
            wire.sendall(head + begun)
            got = b""
            while b"did not arrive" not in got and (data := wire.recv(65536)):
                got += data
            assert b"did not arrive" in got


def test_a_pause_between_two_rows_may_take_longer(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "_IDLE_SECONDS", 0.2)
    begun, more = b'{"target": "CLICKS"}\n{"N": 1}\n', b'{"N": 2}\n'
    head = b"POST /inserts-stream HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    with connected(client) as wire:
        wire.sendall(head % len(begun + more) + begun)
        got = b""
        while b'"seq":0' not in got:
            got += wire.recv(65536)
        assert not any(answers(wire) for _ in range(5))  # each waits
        wire.sendall(more)
        assert b'"seq":1' in said(wire)


# -- connections ----------------------------------------------------------------------------------------------------


def connected(client: Client) -> socket.socket:
    return socket.create_connection((client.host, client.port), timeout=30)


def said(wire: socket.socket) -> bytes:
    """All that comes until the server closes."""
    got = b""
    with suppress(ConnectionResetError):
        while data := wire.recv(65536):
            got += data
    return got


@pytest.mark.parametrize(
    "limits", [ConnectionLimits(most=3), ConnectionLimits(each=3)], ids=["of all", "with one address"]
)
def test_the_number_of_connections_is_limited(tmp_path: Path, limits: ConnectionLimits) -> None:
    with ExitStack() as stack:
        _, client = stack.enter_context(serving(tmp_path / "data", limits))
        going = [stack.enter_context(connected(client)) for _ in range(3)]
        for wire, path in zip(going, ("/info", "/api/v1/topics/clicks/tail", "/info"), strict=True):
            wire.sendall(b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % path.encode())
            assert wire.recv(4096).startswith(b"HTTP/1.1 200")
        with connected(client) as wire:
            told = said(wire)
        assert told.startswith(b"HTTP/1.1 503 ")
        assert json.loads(told.partition(b"\r\n\r\n")[2])["code"] == "too-many-connections"
        going[0].close()
        wait_until(lambda: client.raw("GET", "/info")[0] == 200)


def test_all_loopback_addresses_are_one_client(tmp_path: Path) -> None:
    with ExitStack() as stack:
        _, client = stack.enter_context(serving(tmp_path / "data", ConnectionLimits(each=2)))
        for number in (2, 3):
            source = (f"127.0.0.{number}", 0)
            stack.enter_context(socket.create_connection((client.host, client.port), 30, source))
        with connected(client) as wire:
            assert said(wire).startswith(b"HTTP/1.1 503 ")


def test_websockets_count_as_connections(tmp_path: Path) -> None:
    with ExitStack() as stack:
        _, client = stack.enter_context(serving(tmp_path / "data", ConnectionLimits(each=2)))
        for _ in range(2):
            stack.enter_context(Socket(client.host, client.port, "/api/v1/topics/clicks/tail"))
        with connected(client) as wire:
            assert said(wire).startswith(b"HTTP/1.1 503 ")


def answers(wire: socket.socket) -> bool:
    """Within a moment. `select` takes no descriptor above 1023, and a process of many tests has more."""
    poll = select.poll()
    poll.register(wire, select.POLLIN)
    return bool(poll.poll(100))


FIRST = b"GET /info HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize("before", [b"", FIRST], ids=["of the first request", "of the second"])
def test_a_head_that_trickles_times_out(client: Client, monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    monkeypatch.setattr(http_limits, "HEAD_TIMEOUT", 1.0)
    with connected(client) as wire:
        wire.sendall(before + b"GET /info HTTP/1.1\r\n")
        began = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - began < 30 and not answers(wire):
                wire.sendall(b"x-a: b\r\n")
            assert said(wire).count(b"HTTP/1.1 200") == (1 if before else 0)
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("before", [b"", FIRST], ids=["of the first request", "of the second"])
@pytest.mark.parametrize("line", [b"GET /", b"GET / HTTP/1.1\r\nx: "], ids=["request line", "header"])
def test_an_endless_head_is_refused(client: Client, before: bytes, line: bytes) -> None:
    with connected(client) as wire:
        with suppress(OSError):
            wire.sendall(before)
            if before:
                assert wire.recv(4096)
            wire.sendall(line)
            for _ in range(64):
                wire.sendall(b"y" * 4096)
        assert b" 431 " in said(wire)[:4096]


def test_a_body_that_trickles_times_out(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "_IDLE_SECONDS", 1.0)
    with connected(client) as wire:
        wire.sendall(b"POST /ksql HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 100000\r\n\r\n")
        began = time.monotonic()
        while time.monotonic() - began < 30 and not answers(wire):
            wire.sendall(b" ")
        assert b" 400 " in said(wire)[:100]
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("trailer", [b"h: x\r\n" * 800, b"y" * 4096], ids=["many", "one without end"])
def test_trailers_are_bounded_and_discarded(client: Client, trailer: bytes) -> None:
    with connected(client) as wire:
        wire.sendall(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\nt: ")
        sent = 0
        with suppress(OSError):
            while sent < 4 << 20:
                wire.sendall(trailer)
                sent += len(trailer)
            pytest.fail("more was taken than a head may have")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (FIRST, b"\r\n"),
        (b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n", b"x"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), b""),
    ],
    ids=["an empty line", "the rest of a body", "HTTP/2 without a request"],
)
def test_an_idle_connection_is_closed(
    client: Client, monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    monkeypatch.setattr(http_limits, "IDLE_TIMEOUT", 1.0)
    monkeypatch.setattr(http_limits, "HEAD_TIMEOUT", 1.0)
    with connected(client) as wire:
        wire.sendall(first)
        assert wire.recv(65536)
        wire.sendall(then)
        wire.settimeout(20)
        while wire.recv(65536):
            pass


def test_the_size_of_a_websocket_message_is_limited(client: Client) -> None:
    with Socket(client.host, client.port, "/api/v1/topics/clicks/tail") as wire:
        wire.say("x" * (2 * http_limits.MAX_MESSAGE_BYTES))
        wait_until(lambda: wire.message() is None)


# -- what a browser is told -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/info", "/api/v1/topics", "/api/v1/nowhere", "/nowhere", "/metrics"])
@pytest.mark.parametrize("origin", [None, "http://elsewhere.example"])
def test_responses_have_headers_that_prevent_rendering_as_a_page(client: Client, path: str, origin: str | None) -> None:
    _, _, headers = client.raw("GET", path, None, {} if origin is None else {"origin": origin})
    named = {name.lower(): value for name, value in headers.items()}
    assert named["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert (named["x-content-type-options"], named["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "server" not in named
