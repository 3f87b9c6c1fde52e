"""The process that Spark's Python workers are forked from."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from headrace.engine.spark.daemon import PRELOADED_MODULES


def test_preloaded_modules_start_no_thread() -> None:
    program = "from headrace.engine.spark import daemon; daemon.preload('pyspark.worker'); print(daemon.thread_count())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize("name", PRELOADED_MODULES)
def test_preloaded_modules_exist(name: str) -> None:
    assert importlib.import_module(name)
