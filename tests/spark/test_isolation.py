"""Queries in separate processes: a process that dies does not affect the others, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from headrace.clock import ManualClock
from headrace.control.program import Program
from headrace.control.workers.process import WorkerQueryHandle
from headrace.errors import HeadraceError
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.test_program import BIG, FINAL, NUMBERS, SUMS, insert, values

PROGRAM = [sys.executable, "-c", "from headrace.cli import main; main()"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return memory_and_spark.settings(
        tmp_path, query_isolation="process", query_execution_mode="record", query_emit="per-record"
    )


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened


def processes(program: Program, query: str) -> list[psutil.Process]:
    """The query's own, and Spark's."""
    running = program.running[query]
    assert isinstance(running, WorkerQueryHandle)
    own = psutil.Process(running.pid)
    return [own, *own.children(recursive=True)]


def test_a_dead_process_does_not_affect_the_others(log: EmbeddedLog, settings: Settings) -> None:
    clock = ManualClock(1_000_000_000)
    with Program(log, settings, clock=clock) as program:
        program.execute(NUMBERS + BIG + FINAL + insert(20))
        program.wait(until_idle=True)
        assert [running.progress.records for running in program.running.values()] == [1, 1]
        everything = [process for name in program.running for process in processes(program, name)]

        # One loses its process, the other one its Spark.
        processes(program, "CSAS_BIG_0")[0].kill()
        next(process for process in processes(program, "CTAS_FINAL_1") if process.name() == "java").kill()
        clock.advance(timedelta(seconds=20))  # its window closes, by a tick, as soon as it is back
        program.execute(insert(30))
        program.wait(until_idle=True)
        assert (values(log, "BIG"), values(log, "FINAL")) == ([{"N": 20}, {"N": 30}], [{"N": 1}])
        everything += [process for name in program.running for process in processes(program, name)]

        def stop_at_the_end() -> None:
            if len(values(log, "FINAL")) == 2 and program.failed:
                program.stopping.set()

        # One cannot go on at all.
        untouched = program.running["CTAS_FINAL_1"]
        log.delete_topic("BIG")
        program.execute(insert(40))
        clock.advance(timedelta(seconds=20))
        program.wake()
        with pytest.raises(HeadraceError):  # in the end
            program.wait(on_poll=stop_at_the_end)
        assert program.failed.keys() == {"CSAS_BIG_0"}
        assert program.running["CTAS_FINAL_1"] is untouched
        assert untouched.is_active
    assert values(log, "FINAL") == [{"N": 1}, {"N": 2}]
    assert psutil.wait_procs(everything, timeout=60)[1] == []


def test_queries_stop_with_their_program(settings: Settings, tmp_path: Path) -> None:
    script = tmp_path / "sums.ksql"
    script.write_text(NUMBERS + SUMS + insert(1))
    command = [*PROGRAM, "--data", str(settings.storage.data), "run", str(script), "--json"]
    env = {**os.environ, "HEADRACE_QUERY_ISOLATION": "process"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if any(query["written"] for query in json.loads(line)["queries"]):
                break
        below = psutil.Process(running.pid).children(recursive=True)
        assert "java" in [process.name() for process in below]
        running.kill()
    assert psutil.wait_procs(below, timeout=60)[1] == []
