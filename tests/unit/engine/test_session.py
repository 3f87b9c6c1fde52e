"""What Spark's process is told."""

from __future__ import annotations

import pytest

from headrace.engine.session import java_options


@pytest.mark.parametrize(
    ("environ", "collectors"),
    [
        ({}, 1),
        ({"SPARK_SUBMIT_OPTS": "-Xss4m"}, 1),
        ({"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}, 0),
        ({"JDK_JAVA_OPTIONS": "-XX:+UseZGC"}, 0),
    ],
)
def test_java_gets_one_collector(environ: dict[str, str], collectors: int) -> None:
    assert java_options(environ).count("GC") == collectors
