"""Queries in a shared process, run from a process without Spark."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from headrace.control.program import Program
from headrace.control.warm_up import warm_up
from headrace.control.workers.isolation import SharedProcess
from headrace.control.workers.process import WorkerQueryHandle
from headrace.log.embedded import EmbeddedLog
from tests import memory_and_spark
from tests.spark.test_program import BIG, NUMBERS, SUMS, insert, values
from tests.wait import wait_until


def processes(program: Program) -> list[psutil.Process]:
    """The one of the queries, and Spark's below it."""
    (pid,) = {running.pid for running in program.running.values() if isinstance(running, WorkerQueryHandle)}
    own = psutil.Process(pid)
    return [own, *own.children(recursive=True)]


def test_queries_in_a_shared_process_run_fail_and_restart(tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path, query_execution_mode="record", query_emit="per-record")
    with EmbeddedLog(settings.storage.data, settings) as log:
        aside = SharedProcess("aside", log, settings)
        with Program(log, settings, isolation=aside) as program:
            program.execute(NUMBERS + BIG + SUMS + insert(20))
            program.wait(until_idle=True)
            everything = processes(program)
            assert [process.name() for process in everything].count("java") == 1

            # One of them ends, the other one goes on; one that comes joins it.
            program.execute("TERMINATE CSAS_BIG_0; DROP STREAM big;" + insert(30))
            program.wait(until_idle=True)
            assert (values(log, "BIG"), values(log, "SUMS")) == ([{"N": 20}], [{"TOTAL": 20}, {"TOTAL": 50}])
            program.execute("DROP TABLE sums;" + SUMS.replace("sums", "again") + BIG.replace("big", "bigger"))
            program.wait(until_idle=True)
            assert values(log, "BIGGER") == [{"N": 20}, {"N": 30}]
            assert processes(program)[0] == everything[0]

            # Spark dies, and then the process: both queries are back, in another one.
            for victim in ("java", everything[0].name()):
                next(process for process in processes(program) if process.name() == victim).kill()
                program.execute(insert(1))
                program.wait(until_idle=True)
                everything += processes(program)
        assert values(log, "AGAIN") == [{"TOTAL": total} for total in (20, 50, 51, 52)]
        assert values(log, "BIGGER") == [{"N": 20}, {"N": 30}]
    assert psutil.wait_procs(everything, timeout=60)[1] == []


def test_a_process_is_warm_before_its_first_query(tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path, query_execution_mode="record", query_emit="per-record")
    with EmbeddedLog(settings.storage.data, settings) as log:
        shared, messages = SharedProcess("warm", log, settings), settings.storage.data / "logs" / "headrace.log"
        before = set(psutil.Process().children())
        shared.warm_up(warm_up)
        wait_until(lambda: messages.exists() and "Spark is ready" in messages.read_text())
        (warm,) = set(psutil.Process().children()) - before
        with Program(log, settings, isolation=shared) as program:
            program.execute(NUMBERS + SUMS + insert(20))
            program.wait(until_idle=True)
            assert processes(program)[0] == warm
        assert values(log, "SUMS") == [{"TOTAL": 20}]
        assert {topic.name for topic in log.topics()}.isdisjoint({"warm_up_input", "WARM_UP"})
    warm.wait(60)


def test_a_query_runs_although_spark_dies_while_it_warms_up(tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path, query_execution_mode="record", query_emit="per-record")
    with EmbeddedLog(settings.storage.data, settings) as log:
        shared, before = SharedProcess("warm", log, settings), set(psutil.Process().children())
        shared.warm_up(warm_up)
        (warm,) = set(psutil.Process().children()) - before

        def java() -> list[psutil.Process]:
            with suppress(psutil.NoSuchProcess):  # some live for a moment only
                return [process for process in warm.children(recursive=True) if process.name() == "java"]
            return []

        wait_until(lambda: bool(java()))
        java()[0].kill()
        with Program(log, settings, isolation=shared) as program:
            program.execute(NUMBERS + SUMS + insert(20))
            program.wait(until_idle=True)
        assert values(log, "SUMS") == [{"TOTAL": 20}]
