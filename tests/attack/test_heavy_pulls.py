"""Attacks with pull queries that ask for gigabytes or for minutes of processor time."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.attack.server import Answer, AttackedServer
from tests.wait import wait_until

_HEALTHY_SECONDS = 5.0
"""What is answered at once, on a busy machine."""
_BOUND_SECONDS = 60.0
_MAX_GROWTH = 200 << 20
"""Bytes by which the server's own process may grow."""

TABLES = """
CREATE STREAM orders (id INT KEY, name STRING) WITH (KAFKA_TOPIC='orders', FORMAT='JSON', PARTITIONS=1);
CREATE SOURCE TABLE names (id INT PRIMARY KEY, name STRING) WITH (KAFKA_TOPIC='orders', FORMAT='JSON');
INSERT INTO orders (id, name) VALUES (1, 'ann');
CREATE STREAM lines (id INT KEY, name STRING) WITH (KAFKA_TOPIC='lines', FORMAT='JSON', PARTITIONS=1);
CREATE SOURCE TABLE many (id INT PRIMARY KEY, name STRING) WITH (KAFKA_TOPIC='lines', FORMAT='JSON');
"""
ROWS = "".join(f"INSERT INTO lines (id, name) VALUES ({n}, 'ann');" for n in range(40))
SERIES = "SELECT TRANSFORM(GENERATE_SERIES(1, 60), x => GENERATE_SERIES(1, 1000000)) AS s FROM names WHERE id = 1;"
COLUMNS = ", ".join(f"LPAD(name, 16000000, 'x') AS c{n}" for n in range(40))
PADS = f"SELECT {COLUMNS} FROM names WHERE id = 1;"
MASK = "SELECT LEN(MASK(LPAD(name, 16000000, 'xY1-'))) AS n FROM names WHERE id = 1;"
NESTED = "x => REDUCE(GENERATE_SERIES(1, 1000), 0, (s, y) => s + y)"
SLOW = f"SELECT REDUCE(TRANSFORM(GENERATE_SERIES(1, 4000), {NESTED}), 0, (s, x) => s + x) AS n FROM names;"
LONG = "SELECT id, LPAD(name, 1000000, 'x') AS padded FROM many;"
COUNT = "SELECT COUNT(*) AS n FROM many;"
LOOKUP = "SELECT name FROM names WHERE id = 1;"


@pytest.fixture(scope="module")
def server(shared_attacked: AttackedServer) -> AttackedServer:
    """A server with a table of one row, and one of forty."""
    assert shared_attacked.execute(TABLES + ROWS).status == 200
    wait_until(lambda: b"ann" in _pulled(shared_attacked, LOOKUP).body, lambda: shared_attacked.output)
    wait_until(lambda: b"[40]" in _pulled(shared_attacked, COUNT).body, lambda: shared_attacked.output)
    return shared_attacked


@pytest.mark.attack("a pull query for 60 lists of a million numbers", "it is refused, and the server does not grow")
def test_a_query_for_gigabytes_of_lists_is_refused(server: AttackedServer) -> None:
    before = server.memory()
    answer = _pulled(server, SERIES)
    assert answer.status == 400
    assert b"pull_max_bytes" in answer.body
    assert server.memory() - before < _MAX_GROWTH


@pytest.mark.attack("a pull query with 40 columns of 16 MB", "it is refused, and the server does not grow")
def test_a_query_for_gigabytes_of_text_is_refused(server: AttackedServer) -> None:
    before = server.memory()
    answer = _pulled(server, PADS)
    assert answer.status == 400
    assert b"pull_max_bytes" in answer.body
    assert server.memory() - before < _MAX_GROWTH


@pytest.mark.attack("MASK of 16 MB", "it takes seconds, in a process of its own")
def test_a_mask_of_a_long_text_is_answered(server: AttackedServer) -> None:
    answer = _pulled(server, MASK)
    assert (answer.status, b"16000000" in answer.body) == (200, True)


@pytest.mark.attack("45 of these queries at once", "each is answered or refused; health and lookups go on")
def test_45_heavy_queries_at_once_stop_nobody(server: AttackedServer) -> None:
    before, done, health, lookups = server.memory(), threading.Event(), [], []

    def well_behaved() -> None:
        while not done.wait(0.2):
            health.append(server.get("/healthcheck", timeout=_BOUND_SECONDS))
            lookups.append(_pulled(server, LOOKUP))

    watching = threading.Thread(target=well_behaved)
    watching.start()
    with ThreadPoolExecutor(45) as pool:
        answers = list(pool.map(lambda text: _pulled(server, text), [SERIES, PADS, MASK] * 15))
    done.set()
    watching.join()
    assert {answer.status for answer in answers} <= {200, 400, 429, 503}
    assert max(answer.seconds for answer in answers) < _BOUND_SECONDS
    assert {answer.status for answer in health} == {200}
    assert max(answer.seconds for answer in health) < _HEALTHY_SECONDS
    assert {answer.status for answer in lookups} == {200}
    assert server.memory() - before < _MAX_GROWTH


@pytest.mark.attack("clients that go away from heavy pull queries", "the queries end with them")
def test_a_query_ends_when_its_client_goes_away(server: AttackedServer) -> None:
    body = json.dumps({"ksql": SLOW}).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=_BOUND_SECONDS) as wire:
        wire.sendall(b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: any(one["worker"] for one in _processes(server)))
    wait_until(lambda: not _processes(server))


@pytest.mark.attack("pull queries that wait for a worker", "other reads of the same client go on")
def test_queries_that_wait_for_a_worker_hold_up_no_lookups(server: AttackedServer) -> None:
    body = json.dumps({"ksql": SLOW}).encode()
    head = b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    with ExitStack() as wires:
        for _ in range(10):  # more than a client may have running
            wire = wires.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=_BOUND_SECONDS))
            wire.sendall(head + body)
        wait_until(lambda: sum(one["state"] == "waiting" for one in _processes(server)) >= 2)
        before = {one["id"] for one in _processes(server)}
        for number in range(5):  # each a new text, which is planned on a thread
            assert _pulled(server, LOOKUP.replace(";", f" AND {number} = {number};")).status == 200
        assert before <= {one["id"] for one in _processes(server)}, "a lookup waited until a heavy query had ended"
    wait_until(lambda: not _processes(server))


@pytest.mark.attack("clients that ask for long results and read nothing", "the workers are free at once")
def test_clients_that_read_nothing_hold_no_worker(server: AttackedServer) -> None:
    body = json.dumps({"ksql": LONG}).encode()
    head = b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    with ExitStack() as wires:
        for _ in range(4):  # more than there are workers
            wire = wires.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=_BOUND_SECONDS))
            wire.sendall(head + body)
            wait_until(lambda wire=wire: bool(wire.recv(1)))
        wait_until(lambda: not any(one["worker"] for one in _processes(server)))
        assert len(_processes(server)) == 4
        began = time.monotonic()
        assert _pulled(server, COUNT).status == 200
        assert time.monotonic() - began < _HEALTHY_SECONDS
    wait_until(lambda: not _processes(server))


@pytest.mark.attack("a heavy pull query of minutes", "its user ends it by its id")
def test_a_query_is_ended_by_its_id(server: AttackedServer) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_pulled, server, SLOW)
        wait_until(lambda: any(one["worker"] for one in _processes(server)))
        (process,) = _processes(server)
        assert (process["kind"], process["text"]) == ("pull", SLOW)
        assert server.request("DELETE", f"/api/v1/processes/{process['id']}").status == 204
        assert b"query-killed" in waiting.result(_BOUND_SECONDS).body or waiting.result().status == 400
    assert _processes(server) == []


def _processes(server: AttackedServer) -> list[dict[str, Any]]:
    return server.get("/api/v1/processes").document


def _pulled(server: AttackedServer, text: str) -> Answer:
    return server.post("/query", {"ksql": text}, timeout=2 * _BOUND_SECONDS)
