"""What Spark's Python workers are forked from."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from headrace.engine.daemon import NEEDED


def test_nothing_that_is_loaded_starts_a_thread() -> None:
    program = "from headrace.engine import daemon; daemon.load('pyspark.worker'); print(daemon.threads())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_loaded_is_there(name: str) -> None:
    assert importlib.import_module(name)
