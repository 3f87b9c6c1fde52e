"""One Spark session for the whole run: starting one costs seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.spark.session import spark_session
from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka import jars
from headrace.settings import Settings, Size
from tests import memory_and_spark

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def tests_importable() -> Iterator[None]:
    """Spark's Python processes import no folder by themselves, and run functions of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def spark(tests_importable: None) -> Iterator[SparkSession]:
    settings = Settings.of(spark_driver_memory=Size(1 << 30))
    jars.fetch(settings)
    session = spark_session(settings, "tests", jars=jars.spark_jars(settings))
    yield session
    session.stop()


@pytest.fixture
def settings(spark: SparkSession, tmp_path: Path) -> Settings:
    """Of a program, which may have others of its own."""
    del spark  # there before any program asks for it
    return memory_and_spark.settings(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(
        tmp_path / "data",
        Settings.of(storage_maintenance_interval=timedelta(0), storage_file_delete_delay=timedelta(0)),
    ) as opened:
        yield opened


def drain(rows: DataFrame, write: object, checkpoint: Path, mode: str = "append") -> list[dict]:
    """Run a streaming query over all that is there; returns the progress of its batches."""
    query = (
        rows.writeStream.foreachBatch(write)  # type: ignore[arg-type]
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died after the target's commit and before Spark's own: the last batch runs again."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    return last
