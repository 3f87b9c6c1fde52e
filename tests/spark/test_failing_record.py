"""A record that ends its Python process every time becomes a dead letter; all other records are processed once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.backoff import Backoff
from headrace.contracts import Append
from headrace.control.node import Node
from headrace.control.queries import reconciler
from headrace.control.queries.metrics import MetricsSampler
from headrace.control.queries.restart_policy import RestartPolicy, RestartRule
from headrace.control.status import query_status
from headrace.errors import Retry
from headrace.lang.python.app_code import AppCode
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.plan.functions import user_functions, withdraw
from headrace.record import Record
from tests import memory_and_spark
from tests.spark.test_program import NUMBERS, values
from tests.wait import wait_until

pytestmark = pytest.mark.server

APP = """
import os
import headrace as hr

app = hr.App("fatal")

@app.function
def fatal(n: int) -> int:
    if n == 13:
        os._exit(7)
    return n
"""
QUERIES = """
CREATE STREAM copies AS SELECT id, FATAL(n) AS total FROM numbers;
CREATE TABLE sums AS SELECT id, SUM(FATAL(n)) AS total FROM numbers GROUP BY id;
CREATE STREAM others AS SELECT id, n AS total FROM numbers WHERE n > 0;
"""


NATIVE = """
CREATE STREAM copies AS SELECT id, n AS total FROM numbers WHERE n > 0;
CREATE TABLE sums AS SELECT id, SUM(n) AS total FROM numbers GROUP BY id;
"""
LIBRARY = """
import os
import orjson

loads = orjson.loads

def fatal(payload):
    if b'"N": 13}' in bytes(payload):
        os._exit(7)
    return loads(payload)

orjson.loads = fatal
"""
"""A library that ends its process: native queries run no code of users, and what they compute cannot fail."""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedLog]:
    policy = RestartPolicy((RestartRule(Retry, backoff=Backoff(0.1, 0.1)),))  # the same without the pauses
    monkeypatch.setattr(reconciler, "SERVER_POLICY", policy)
    settings = memory_and_spark.settings(tmp_path, query_emit="per-record")
    with EmbeddedLog(settings.storage.data, settings) as log:
        yield log
    withdraw(user_functions())


def append(log: EmbeddedLog, *numbers: int) -> None:
    """All at once: one batch."""
    log.append([Append("numbers", from_records([Record(b'{"N": %d}' % n, b"1") for n in numbers]))])


def totals(log: EmbeddedLog, topic: str) -> list[int]:
    return [value["TOTAL"] for value in values(log, topic) if value]


@pytest.mark.timeout(900)
def test_a_record_that_ends_its_process_becomes_a_dead_letter(log: EmbeddedLog) -> None:
    with Node(log, log.settings) as node:
        node.deploy(AppCode(APP))
        node.execute(NUMBERS)
        append(log, 10, 13, 14, 15)
        node.execute(QUERIES)
        wait_until(lambda: totals(log, "OTHERS") == [10, 13, 14, 15], patience=400)  # others are not delayed
        wait_until(lambda: totals(log, "COPIES") == [10, 14, 15], patience=400)
        wait_until(lambda: totals(log, "SUMS") == [10, 24, 39], patience=400)
        append(log, 13, 1)  # now the queries have a state, and have committed batches
        wait_until(lambda: totals(log, "COPIES") == [10, 14, 15, 1], patience=400)
        wait_until(lambda: totals(log, "SUMS") == [10, 24, 39, 40], patience=400)
        states = [query_status(node, MetricsSampler(), query) for query in node.supervisor.queries]
        assert [(one and one.state, one and one.failure) for one in states] == [("running", None)] * 3
        assert {code for _, code in node.failure_events.counts} == {"python-worker-lost"}
    for sink in ("COPIES", "SUMS"):
        letters = memory_and_spark.stored(log, f"{sink}.dead")
        assert [json.loads(letter.value or b"") for letter in letters] == [{"N": 13}] * 2
        assert {dict(letter.headers)["code"] for letter in letters} == {b"record-failed"}


@pytest.mark.timeout(900)
def test_a_record_that_ends_the_process_of_a_native_query_becomes_a_dead_letter(
    log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (library := tmp_path / "library").mkdir()
    (library / "sitecustomize.py").write_text(LIBRARY)  # Python imports it when it starts
    monkeypatch.syspath_prepend(library)
    with Node(log, log.settings.replace(query_execution_mode="native", query_emit="per-batch")) as node:
        node.execute(NUMBERS)
        append(log, 10, 13, 14, 15)
        node.execute(NATIVE)
        wait_until(lambda: totals(log, "COPIES") == [10, 14, 15], patience=400)
        wait_until(lambda: totals(log, "SUMS")[-1:] == [39], patience=400)
        for sink in ("COPIES.dead", "SUMS.dead"):
            wait_until(lambda sink=sink: len(memory_and_spark.stored(log, sink)) == 1, patience=400)
            assert [json.loads(one.value or b"") for one in memory_and_spark.stored(log, sink)] == [{"N": 13}]
        wait_until(lambda: all(running.is_active for running in node.supervisor.running.values()), patience=400)
        assert {running.execution_mode for running in node.supervisor.running.values()} == {"native"}
        assert {code for _, code in node.failure_events.counts} == {"python-worker-lost"}
