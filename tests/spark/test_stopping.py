"""Stops of queries whose batch does not end: it is ended by force, and repeated after the next start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from headrace.control.node import Node
from headrace.control.queries.metrics import MetricsSampler
from headrace.control.status import query_status
from headrace.control.workers.process import WorkerQueryHandle
from headrace.lang.python.app_code import AppCode
from headrace.log.embedded import EmbeddedLog
from headrace.plan.functions import user_functions, withdraw
from tests import memory_and_spark
from tests.spark.test_program import NUMBERS, SUMS, insert, values
from tests.wait import wait_until

pytestmark = pytest.mark.server

APP = """
import time
from pathlib import Path
import headrace as hr

app = hr.App("slow")

@app.function
def gated(n: int) -> int:
    (Path({folder!r}) / "begun").touch()
    while not (Path({folder!r}) / "open").exists():
        time.sleep(0.05)
    return n
"""
SLOW = "CREATE STREAM slow AS SELECT id, GATED(n) AS total FROM numbers;"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    settings = memory_and_spark.settings(
        tmp_path,
        query_execution_mode="record",
        query_emit="per-record",
        query_stop_timeout=timedelta(seconds=2),
    )
    with EmbeddedLog(settings.storage.data, settings) as log:
        yield log
    withdraw(user_functions())


def state_of(node: Node, query: str) -> str | None:
    status = query_status(node, MetricsSampler(), query)
    return None if status is None else status.state


def pid_of(node: Node, query: str) -> int:
    running = node.supervisor.running[query]
    assert isinstance(running, WorkerQueryHandle)
    return running.pid


def test_a_batch_that_does_not_end_stops_nobody_else_and_is_repeated(log: EmbeddedLog, tmp_path: Path) -> None:
    with Node(log, log.settings) as node:
        node.deploy(AppCode(APP.format(folder=str(tmp_path))))
        node.execute(NUMBERS + SUMS + SLOW + insert(1))
        (slow,) = (name for name in node.supervisor.queries if "SLOW" in name)
        wait_until((tmp_path / "begun").exists)
        process = pid_of(node, slow)
        began = time.monotonic()
        node.execute(f"PAUSE {slow}; LIST QUERIES;")
        assert time.monotonic() - began < 1
        wait_until(lambda: state_of(node, slow) == "paused")
        wait_until(lambda: values(log, "SUMS") == [{"TOTAL": 1}])
        node.execute(insert(2))
        wait_until(lambda: values(log, "SUMS") == [{"TOTAL": 1}, {"TOTAL": 3}])
        assert pid_of(node, next(iter(node.supervisor.running))) == process  # Spark goes on
        assert values(log, "SLOW") == []
        (tmp_path / "open").touch()
        node.execute(f"RESUME {slow};")
        wait_until(lambda: values(log, "SLOW") == [{"TOTAL": 1}, {"TOTAL": 2}])


def test_a_worker_process_that_hangs_is_killed_and_its_queries_resume(log: EmbeddedLog) -> None:
    with Node(log, log.settings) as node:
        node.execute(NUMBERS + SUMS + SUMS.replace("sums", "others") + insert(1))
        wait_until(lambda: values(log, "SUMS") == values(log, "OTHERS") == [{"TOTAL": 1}])
        name, other = node.supervisor.queries
        worker = psutil.Process(pid_of(node, name))
        for process in (*worker.children(recursive=True), worker):
            process.suspend()
        began = time.monotonic()
        node.execute(f"TERMINATE {name}; LIST QUERIES;" + insert(2))
        assert time.monotonic() - began < 1
        wait_until(lambda: values(log, "OTHERS") == [{"TOTAL": 1}, {"TOTAL": 3}])
        assert pid_of(node, other) != worker.pid
        assert values(log, "SUMS") == [{"TOTAL": 1}]
        wait_until(lambda: not node.supervisor.stops)
        worker = psutil.Process(pid_of(node, other))
        for process in (*worker.children(recursive=True), worker):
            process.suspend()
        began = time.monotonic()
    assert time.monotonic() - began < 30
    assert psutil.wait_procs([worker], timeout=10)[1] == []
