"""Attacks by a Spark process that hangs: nobody else waits for it, and its queries run again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.attack.server import AttackedServer
from tests.wait import wait_until

_AT_ONCE = 5.0
"""Seconds, on a busy machine, for what is answered at once."""
_STOP_TIMEOUT = "3s"

TABLES = """
CREATE STREAM clicks (id INT KEY, page STRING) WITH (KAFKA_TOPIC='clicks', FORMAT='JSON', PARTITIONS=1);
CREATE TABLE per_id AS SELECT id, COUNT(*) AS total FROM clicks GROUP BY id;
"""
CLICK = "INSERT INTO clicks (id, page) VALUES (1, 'a');"


@pytest.fixture
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    """A server whose Spark process is stopped by a signal while a query runs."""
    with AttackedServer(tmp_path_factory.mktemp("attack") / "data", {"query_stop_timeout": _STOP_TIMEOUT}) as server:
        assert server.execute(TABLES + CLICK).status == 200
        wait_until(lambda: _total(server) == 1, lambda: server.output)
        _spark(server).send_signal(signal.SIGSTOP)
        yield server


@pytest.mark.attack("Spark's process hangs, and its queries are paused", "others are served, Spark is replaced")
@pytest.mark.data
def test_a_hanging_spark_process_is_replaced(hanging: AttackedServer) -> None:
    hung = _spark(hanging)
    query = _query(hanging)["name"]
    for statement in (CLICK, f"PAUSE {query};", "LIST QUERIES;", CLICK):
        answer = hanging.execute(statement)
        assert (answer.status, answer.seconds < _AT_ONCE) == (200, True), statement
    for path in ("/healthcheck", "/metrics", "/api/v1/queries"):
        assert hanging.get(path).seconds < _AT_ONCE, path
    assert _total(hanging) == 1
    wait_until(lambda: not hung.is_running(), lambda: hanging.output)
    assert hanging.execute(f"RESUME {query};").status == 200
    wait_until(lambda: _total(hanging) == 3, lambda: hanging.output)


def _spark(server: AttackedServer) -> psutil.Process:
    (process,) = (one for one in server.processes() if one.name() == "java")
    return process


def _query(server: AttackedServer) -> dict[str, Any]:
    (query,) = server.get("/api/v1/queries").document
    return query


def _total(server: AttackedServer) -> int | None:
    """The count of the clicks in the view."""
    answer = server.post("/query", {"ksql": "SELECT total FROM per_id WHERE id = 1;"})
    rows = [entry["row"]["columns"][0] for entry in answer.document if "row" in entry]
    return rows[0] if rows else None
