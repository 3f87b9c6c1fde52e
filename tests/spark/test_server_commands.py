"""Operation of a server by commands alone: status, verify, reload, logs, bundle, down."""

from __future__ import annotations

import json
import signal
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headrace.log.embedded import EmbeddedLog
from tests import memory_and_spark
from tests.spark.test_node import wait_until
from tests.spark.test_program import NUMBERS, SUMS, insert, values
from tests.spark.test_up import PROGRAM, server
from tests.unit.serve.ksql.test_app import done

pytestmark = pytest.mark.server


def headrace(data: Path, *words: str, code: int = 0) -> str:
    ran = subprocess.run(
        [*PROGRAM, "--data", str(data), *words], capture_output=True, text=True, check=False, timeout=240
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


def told(data: Path, *words: str) -> Any:
    return json.loads(headrace(data, "--json", *words))


def test_commands_operate_a_running_server(tmp_path: Path) -> None:
    data = memory_and_spark.settings(tmp_path).storage.data
    with EmbeddedLog(data) as log, server(data) as (process, address):
        done(address, NUMBERS + SUMS + insert(1, 2))
        wait_until(lambda: values(log, "SUMS")[-1:] == [{"TOTAL": 3}])
        status = told(data, "status")
        assert (status["pid"], status["address"]) == (process.pid, address)
        (query,) = status["queries"]
        assert (query["name"], query["state"], query["lag"], query["records"]) == ("CTAS_SUMS_1", "running", 0, 2)
        verdict = told(data, "verify", "sums")
        assert (verdict["equal"], verdict["rows"], verdict["query"]) == (True, 1, "CTAS_SUMS_1")
        assert (verdict["view_rows"], verdict["view_differing"]) == (1, 0)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "settings were reloaded" in headrace(data, "logs", "-n", "500"))
        headrace(data, "support-bundle", str(tmp_path / "bundle.zip"))
        with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
            assert "CTAS_SUMS_1" in bundle.read("plans.txt").decode()
        assert told(data, "down")["pid"] == process.pid
        assert process.wait(60) == 0
    headrace(data, "status", code=1)
