"""A Spark process that was listed makes the archive that the next one uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from pyspark import SparkContext
from headrace.engine.spark.session import archive_classes, spark_session, stop_spark
from headrace.settings import Settings
settings = Settings.of(spark_class_archives=Path(sys.argv[1]), spark_driver_memory=1 << 30)
spark = spark_session(settings)
assert spark.range(10).selectExpr("sum(id)").collect()[0][0] == 45
maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
print("uses one" if sys.argv[1] in maps else "uses none", archive_classes(settings))
stop_spark()
"""


def run(archives: Path, scratch: Path) -> str:
    scratch.mkdir()
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(scratch)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(archives)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[warning]" not in done.stdout + done.stderr
    return done.stdout.strip()


def test_the_second_spark_process_uses_the_archive_that_the_first_one_made(tmp_path: Path) -> None:
    archives = tmp_path / "archives"
    assert run(archives, tmp_path / "first") == "uses none True"
    assert run(archives, tmp_path / "second") == "uses one True"
