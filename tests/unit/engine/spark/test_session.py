"""Options of Spark's Java process, and errors if it does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.spark.session import java_options, spark_session
from headrace.errors import MissingDependency, ProcessLost
from headrace.settings import Settings


@pytest.mark.parametrize(
    ("environ", "collectors"),
    [
        ({}, 1),
        ({"SPARK_SUBMIT_OPTS": "-Xss4m"}, 1),
        ({"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}, 0),
        ({"JDK_JAVA_OPTIONS": "-XX:+UseZGC"}, 0),
    ],
)
def test_java_gets_exactly_one_garbage_collector(environ: dict[str, str], collectors: int) -> None:
    assert java_options(environ).count("GC") == collectors


@pytest.mark.parametrize(
    ("script", "told"), [("kill -9 $$", ProcessLost), (None, MissingDependency)], ids=["killed", "none"]
)
def test_a_java_process_that_dies_is_not_reported_as_missing(
    script: str | None, told: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(told):
        spark_session(Settings())
