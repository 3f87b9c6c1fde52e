"""Output of worker processes is written to a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.control.workers.spark_log import redirect_output

TALKING = "import sys; print('out'); print('err', file=sys.stderr)"


def test_child_processes_write_into_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "logs" / "spark.log"
    with redirect_output(file):
        subprocess.run([sys.executable, "-c", TALKING], check=True)
    print("back")
    assert sorted(file.read_text().split()) == ["err", "out"]
    assert capfd.readouterr().out == "back\n"


def test_an_oversized_file_is_truncated(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    file.write_bytes(b"x" * (11 << 20))
    with redirect_output(file):
        pass
    assert file.stat().st_size == 0
    assert (tmp_path / "spark.log.1").stat().st_size == 11 << 20
