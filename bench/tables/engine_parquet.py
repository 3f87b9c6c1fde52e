"""Our plan over Parquet files: compiled from its KSQL text as a native query is, read and written by plain Spark.

No statement names files yet, so the frame that a topic would give is made here of the files' columns.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.harness.case import Outcome, Work
from bench.tables.engine_program import settings_of
from bench.tables.engine_queries import script
from bench.tables.engine_rows import write_parquet
from bench.tables.engine_spark import PARQUET, check_files, file_writer, finish
from headrace.engine.native.compiler import compile_plan
from headrace.engine.native.task_spec import native_task_spec
from headrace.engine.spark.session import spark_session
from headrace.testing.world import World

_FRAME = ("user as k0", "page as v0", "amount as v1", "unix_millis(at) as time", "true as valued")


def parquet(work: Work) -> Outcome:
    sizes = {"warming": work["warmup_records"], "measured": work["records"]}
    folders = [write_parquet(work.folder / name, rows, work["users"]) for name, rows in sizes.items()]
    spark = spark_session(settings_of(work), "bench")
    _, seconds = [_seconds(spark, work["query"], folder) for folder in folders]
    check_files(spark, work, folders[1])
    return Outcome(work["records"], seconds)


def _seconds(spark: SparkSession, query: str, folder: Path) -> float:
    """From the statement's text to the last row, as it is counted for the others."""
    started = time.perf_counter()
    rows = spark.readStream.schema(PARQUET).parquet(str(folder)).selectExpr(*_FRAME)
    finish(file_writer(_results(rows, query, folder), query, folder).start())
    return time.perf_counter() - started


def _results(rows: DataFrame, query: str, folder: Path) -> DataFrame:
    world = World(live=False)
    world.execute(script(query, "clicks", "results"))
    (running,) = world.running.values()
    work = replace(
        native_task_spec(running.query, str(folder)), condition=None, partial=None
    )  # Spark itself has the rows
    return compile_plan(rows, work).drop("place", "headers")
