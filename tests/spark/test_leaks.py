"""A stopped query releases its resources, however often it restarts."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.control.program import Program
from headrace.engine.query import RunningQuery
from headrace.log.embedded import EmbeddedLog
from tests import memory_and_spark
from tests.spark.test_program import BIG, NUMBERS, insert
from tests.wait import wait_until


def held(spark: SparkSession) -> dict[str, int]:
    """What is left when both collectors have been through: queries, and threads of Python's and of Java's."""
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    java.System.gc()
    gc.collect()
    name = f"Idle Worker Monitor for {spark.sparkContext.pythonExec}"
    return {
        "queries": sum(isinstance(one, RunningQuery) for one in gc.get_objects()),
        "lines": threading.active_count(),  # by which Java calls Python: each has a thread
        "monitors": java.org.apache.commons.lang3.ThreadUtils.findThreadsByName(name).size(),
    }


def test_a_query_that_restarts_often_leaks_nothing(spark: SparkSession, tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path, query_execution_mode="native")
    with EmbeddedLog(settings.storage.data, settings) as log, Program(log, settings) as program:
        program.execute(NUMBERS + BIG)

        def restart_query() -> None:
            program.execute("RESUME CSAS_BIG_0;" + insert(20))
            program.wait(until_idle=True)
            program.execute("PAUSE CSAS_BIG_0;")

        restart_query()  # by then all is there that stays
        wait_until(lambda: held(spark)["queries"] == 0)
        before = held(spark)
        for _ in range(2):
            restart_query()
        wait_until(
            lambda: all(count <= before[name] for name, count in held(spark).items()), lambda: (before, held(spark))
        )
