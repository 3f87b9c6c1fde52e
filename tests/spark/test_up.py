"""`headrace up`: statements over HTTP, a kill -9, and a restart that resumes everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from headrace.log.embedded import EmbeddedLog
from tests import memory_and_spark
from tests.spark.test_node import wait_until
from tests.spark.test_program import NUMBERS, SUMS, insert, values
from tests.unit.serve.ksql.test_app import done

PROGRAM = [sys.executable, "-c", "from headrace.cli import main; main()"]


@contextmanager
def server(data: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Its process and its address."""
    command = [*PROGRAM, "--data", str(data), "up", "--port", "0"]
    env = {**os.environ, "HEADRACE_QUERY_EXECUTION_MODE": "record", "HEADRACE_QUERY_EMIT": "per-record"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "listens on" in line)
        try:
            yield process, told.split("listens on ")[1].split(";")[0]
        finally:
            below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            assert psutil.wait_procs(below, timeout=30)[1] == []


def test_a_killed_server_resumes(tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path)
    with EmbeddedLog(settings.storage.data, settings) as log:
        with server(settings.storage.data) as (process, address):
            done(address, NUMBERS + SUMS + insert(1))
            wait_until(lambda: values(log, "SUMS") == [{"TOTAL": 1}])
            below = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            assert psutil.wait_procs(below, timeout=30)[1] == []  # nothing is left behind
        with server(settings.storage.data) as (process, address):
            done(address, insert(2))
            wait_until(lambda: values(log, "SUMS") == [{"TOTAL": 1}, {"TOTAL": 3}])
            (queries,) = done(address, "SHOW QUERIES;")
            assert [query["id"] for query in queries["queries"]] == ["CTAS_SUMS_1"]
        assert process.returncode == 0
