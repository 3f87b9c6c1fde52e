"""A lock on a name admits one process at a time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.control.admin.lock import ProgramLock
from headrace.errors import ProgramRunning

HOLDING = "import sys, time; from pathlib import Path; from headrace.control.admin.lock import ProgramLock\n"
HOLDING += "held = ProgramLock(Path(sys.argv[1]), 'orders'); print('held', flush=True); time.sleep(60)"


def test_a_second_process_learns_which_process_holds_the_lock(tmp_path: Path) -> None:
    with ProgramLock(tmp_path, "orders"), pytest.raises(ProgramRunning) as refused:
        ProgramLock(tmp_path, "orders")
    assert re.search(rf'"orders" is already running: process {os.getpid()}, since 20..-', refused.value.what)
    ProgramLock(tmp_path, "orders").close()


def test_the_lock_is_released_when_its_process_dies(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ProgramRunning, match=f"process {other.pid}"):
            ProgramLock(tmp_path, "orders")
        other.send_signal(signal.SIGKILL)
        other.wait()
        ProgramLock(tmp_path, "orders").close()


def test_a_damaged_lock_file_does_not_prevent_locking(tmp_path: Path) -> None:
    with ProgramLock(tmp_path, "orders"):
        (tmp_path / "program.lock").write_text("[]")
        with pytest.raises(ProgramRunning, match="another process"):
            ProgramLock(tmp_path, "orders")
