"""Warms up Spark: runs a small script on a scratch log, as every script runs.

The first query of a process is slow because Java loads and compiles Spark's classes, and Python workers start. After
this, a user's first query finds all that done.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from headrace.contracts import Log
from headrace.control.program import Program
from headrace.control.workers.isolation import InProcess
from headrace.engine.spark.session import SparkSession
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings

NAME = "warm-up"
_SCRIPT = """
CREATE STREAM warm_up_input (id STRING KEY, value INT) WITH (kafka_topic='warm_up_input', format='JSON', partitions=1);
INSERT INTO warm_up_input (id, value) VALUES ('a', 1);
CREATE TABLE warm_up AS SELECT id, COUNT(*) AS count FROM warm_up_input GROUP BY id EMIT CHANGES;
"""
_LIMIT = 60.0  # seconds, for a machine that is busy with other things


class _GivenSession(InProcess):
    """Queries on a session that exists."""

    def __init__(self, log: Log, settings: Settings, spark: SparkSession) -> None:
        super().__init__(NAME, log, settings)
        self._spark = spark

    def _session(self) -> SparkSession:
        return self._spark


def warm_up(spark: SparkSession, settings: Settings, is_over: Callable[[], bool]) -> None:
    """Run a query over one record; stop early when `is_over`, for example because a user's query has come."""
    with tempfile.TemporaryDirectory(prefix="headrace-warm-up-", dir=os.environ.get("SPARK_LOCAL_DIRS")) as folder:
        scratch = settings.replace(
            storage_data=Path(folder),
            storage_log="embedded",
            storage_maintenance_interval=timedelta(0),
            query_execution_mode="auto",
        )
        with (
            EmbeddedLog(scratch.storage.data) as log,
            Program(log, scratch, name=NAME, isolation=_GivenSession(log, scratch, spark)) as program,
        ):
            ends_at = time.monotonic() + _LIMIT

            def poll() -> None:
                if is_over() or time.monotonic() > ends_at:
                    program.stopping.set()

            program.execute(_SCRIPT)
            program.wait(until_idle=True, on_poll=poll)
