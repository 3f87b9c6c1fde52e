"""Attacks by load: everybody is answered or refused in time, and health, metrics and the console always answer."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.attack.server import NO_ANSWER, AttackedServer
from tests.wait import wait_until

_SECONDS = 10.0
_TIMEOUT = 30.0  # seconds without a response, after which a client gives up
_AT_ONCE = 5.0  # seconds, on a busy machine
_WRITERS, _PULLS, _SCANS, _PUSHES = 14, 14, 14, 60
_STATEMENTS, _INSERTS = 45, 500  # more requests than a shared pool has threads, each of them for seconds
_REFUSALS = (429, 503)
_TABLES = """
CREATE STREAM orders (id INT KEY, text STRING) WITH (KAFKA_TOPIC='orders', FORMAT='JSON', PARTITIONS=1);
CREATE SOURCE TABLE accounts (id INT PRIMARY KEY, text STRING)
  WITH (KAFKA_TOPIC='orders', FORMAT='JSON', PARTITIONS=1);
"""
_ROWS = b"\n".join([b'{"target": "ORDERS"}', *(b'{"ID": %d, "TEXT": "some text"}' % n for n in range(500))])
_BODIES: Mapping[str, tuple[str, bytes, int]] = {
    "insert": ("/inserts-stream", _ROWS, _WRITERS),
    "pull": ("/query-stream", b'{"sql": "SELECT * FROM accounts WHERE id = 1;"}', _PULLS),
    "scan": ("/query-stream", b'{"sql": "SELECT UCASE(text) FROM accounts WHERE LEN(text) > 3;"}', _SCANS),
}
_PUSH = b'{"sql": "SELECT * FROM orders EMIT CHANGES;"}'


@pytest.fixture(scope="module")
def crowded(shared_attacked: AttackedServer) -> AttackedServer:
    assert shared_attacked.execute(_TABLES).status == 200
    return shared_attacked


def _client(server: AttackedServer, path: str, body: bytes, end: float) -> Counter[str]:
    """One request after another; what came of them."""
    counts = Counter[str]()
    while time.monotonic() < end:
        try:
            answer = server.post(path, body, timeout=_TIMEOUT)
        except TimeoutError:
            counts["timed out"] += 1
            continue
        if answer.status == 200:
            counts["ok"] += 1
        else:
            counts["refused" if answer.status in _REFUSALS else f"status {answer.status}"] += 1
            counts["without Retry-After"] += "retry-after" not in answer.headers
    return counts


def _push(server: AttackedServer, end: float) -> int:
    """Reads the rows of a push query until the end; its status."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT)) as connection:
        connection.request("POST", "/query-stream", _PUSH)
        response = connection.getresponse()
        while time.monotonic() < end and response.read1(1 << 16):
            pass
        return response.status


def _slowest(server: AttackedServer, paths: tuple[str, ...], until: float) -> float:
    """The longest time that one of the paths takes, asked again and again."""
    seconds = 0.0
    while time.monotonic() < until:
        for path in paths:
            answer = server.get(path, timeout=_TIMEOUT)
            assert answer.status == 200, path
            seconds = max(seconds, answer.seconds)
    return seconds


@pytest.mark.attack("42 writers and readers and 60 push queries at once", "health is answered, nobody times out")
def test_load_is_answered_or_refused_and_drains(crowded: AttackedServer) -> None:
    with ThreadPoolExecutor(_WRITERS + _PULLS + _SCANS + _PUSHES) as clients:
        end = time.monotonic() + _SECONDS
        pushes = [clients.submit(_push, crowded, end) for _ in range(_PUSHES)]
        others = [
            clients.submit(_client, crowded, path, body, end)
            for path, body, count in _BODIES.values()
            for _ in range(count)
        ]
        slowest = _slowest(crowded, ("/healthcheck", "/metrics"), end)
        counts = sum((one.result() for one in others), Counter[str]())
        statuses = {one.result() for one in pushes}
    assert slowest < _AT_ONCE
    assert counts["ok"] > 0
    assert {name: count for name, count in counts.items() if count} == {
        name: counts[name] for name in ("ok", "refused") if counts[name]
    }
    assert statuses <= {200, *_REFUSALS}
    wait_until(lambda: _waiting(crowded) == 0)


def _waiting(server: AttackedServer) -> float:
    """Requests that run or wait, without health's own."""
    lines = server.get("/metrics").body.decode().splitlines()
    names = ("headrace_work_running{", "headrace_work_queued{")
    return sum(float(line.split()[-1]) for line in lines if line.startswith(names) and '"health"' not in line)


@pytest.mark.attack("45 requests with hundreds of statements at once", "health, metrics and the console are answered")
def test_statements_that_wait_do_not_stop_the_rest(crowded: AttackedServer) -> None:
    with ThreadPoolExecutor(_STATEMENTS) as clients:
        sent = [clients.submit(_execute, crowded, number) for number in range(_STATEMENTS)]
        slowest = _slowest(crowded, ("/healthcheck", "/metrics", "/ui/log-in"), time.monotonic() + _SECONDS)
        crowd = [_outcome(one) for one in sent]
    assert slowest < _AT_ONCE
    assert set(crowd) <= {"ok", "refused"}


def _execute(server: AttackedServer, number: int) -> str:
    statements = f"INSERT INTO orders (id, text) VALUES ({number}, 'x');" * _INSERTS
    answer = server.execute(statements, timeout=2 * _TIMEOUT)
    if answer.status in _REFUSALS:
        assert "retry-after" in answer.headers
        return "refused"
    return "ok" if answer.status == 200 else f"status {answer.status}: {answer.body[:200]!r}"


def _outcome(sent: Future[str]) -> str:
    try:
        return sent.result()
    except NO_ANSWER as error:
        return repr(error)
