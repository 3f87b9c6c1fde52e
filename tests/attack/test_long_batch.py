"""Attacks with a query whose batch takes a minute and more: nobody else waits for it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psutil
import pytest

from tests.attack.server import AttackedServer
from tests.wait import wait_until

_AT_ONCE = 5.0
"""Seconds, on a busy machine, for what is answered at once: the batch takes far longer."""
_ROWS = 400  # half a second each: the limit of a pattern
_DOWN_SECONDS = 5

TABLES = """
CREATE STREAM lines (id INT KEY, line STRING) WITH (KAFKA_TOPIC='lines', FORMAT='JSON', PARTITIONS=1);
CREATE TABLE totals AS SELECT id, COUNT(*) AS total FROM lines GROUP BY id;
CREATE STREAM slow AS SELECT id, REGEXP_EXTRACT('(a|aa)+$', line) AS found FROM lines;
"""
HARMLESS, SLOW = "x", "a" * 64 + "!"


@pytest.fixture(scope="module")
def in_long_batch(shared_attacked: AttackedServer) -> AttackedServer:
    """A server, one of whose queries works on a batch that takes minutes."""
    assert shared_attacked.execute(TABLES).status == 200
    _insert(shared_attacked, HARMLESS, 1)
    wait_until(lambda: _rows(shared_attacked, "SLOW") == 1, lambda: shared_attacked.output)
    before = _worker_seconds(shared_attacked)
    _insert(shared_attacked, SLOW, _ROWS)
    wait_until(lambda: _worker_seconds(shared_attacked) > before + 2.0)
    return shared_attacked


@pytest.mark.attack("PAUSE of a query in a batch of minutes", "it is answered at once, and so is everybody else")
def test_nobody_waits_for_a_query_that_stops(in_long_batch: AttackedServer) -> None:
    server = in_long_batch
    slow = _slow(server)["name"]
    for statement in (f"PAUSE {slow};", "LIST QUERIES;", "INSERT INTO lines (id, line) VALUES (2, 'y');"):
        answer = server.execute(statement)
        assert (answer.status, answer.seconds < _AT_ONCE) == (200, True), statement
    for path in ("/healthcheck", "/metrics", "/api/v1/queries", "/ui/log-in"):
        assert server.get(path).seconds < _AT_ONCE, path
    pull = server.post("/query", {"ksql": "SELECT * FROM totals WHERE id = 1;"})
    assert (pull.status, pull.seconds < _AT_ONCE) == (200, True)
    assert _slow(server)["state"] == "pausing"


@pytest.mark.attack("`down` while a batch takes minutes", "the server ends within the time-out, and nothing is lost")
@pytest.mark.data
def test_down_ends_within_its_timeout(in_long_batch: AttackedServer) -> None:
    began = time.monotonic()
    stopped = in_long_batch.command("down", "--timeout", str(_DOWN_SECONDS))
    assert time.monotonic() - began < _DOWN_SECONDS + 10, stopped.stderr
    wait_until(lambda: not in_long_batch.is_healthy())
    assert in_long_batch.processes() == []


def _insert(server: AttackedServer, line: str, rows: int) -> None:
    inserts = f"INSERT INTO lines (id, line) VALUES (1, '{line}');" * rows
    assert server.execute(inserts).status == 200


def _rows(server: AttackedServer, topic: str) -> int:
    answer = server.get(f"/api/v1/topics/{topic}")
    return sum(one["end"] for one in answer.document["partitions"]) if answer.status == 200 else 0


def _slow(server: AttackedServer) -> dict[str, Any]:
    (query,) = (one for one in server.get("/api/v1/queries").document if "SLOW" in one["name"])
    return query


def _worker_seconds(server: AttackedServer) -> float:
    """Processor time of the Python processes below the server."""
    total = 0.0
    for one in server.processes():
        with suppress(psutil.NoSuchProcess):  # some live for a moment only
            total += sum(one.cpu_times()[:2]) if one.name().startswith("python") else 0.0
    return total
