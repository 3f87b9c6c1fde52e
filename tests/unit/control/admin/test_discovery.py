"""Who serves a data folder is read from the kernel's lock, and never taken from a file alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from headrace.control.admin.discovery import SERVER_PROGRAM, advertise, find_server, lock_holder, stop_server
from headrace.control.admin.lock import ProgramLock
from headrace.errors import ProgramRunning, ServerNotRunning


def folder(data: Path) -> Path:
    return data / "checkpoints" / SERVER_PROGRAM


def test_a_running_server_is_found_by_its_lock(tmp_path: Path) -> None:
    assert find_server(tmp_path) is None
    with ProgramLock(folder(tmp_path), SERVER_PROGRAM):
        there = find_server(tmp_path)
        assert there is not None
        assert (there.pid, there.address) == (os.getpid(), None)
        with advertise(tmp_path, "http://127.0.0.1:1"):
            there = find_server(tmp_path)
            assert there is not None
            assert there.address == "http://127.0.0.1:1"
        assert not (folder(tmp_path) / "server.json").exists()
    assert find_server(tmp_path) is None


def test_files_of_a_dead_server_are_ignored(tmp_path: Path) -> None:
    with ProgramLock(folder(tmp_path), SERVER_PROGRAM):
        pass
    left = {"pid": os.getpid(), "address": "http://127.0.0.1:1"}
    (folder(tmp_path) / "server.json").write_text(json.dumps(left))
    assert find_server(tmp_path) is None
    with ProgramLock(folder(tmp_path), SERVER_PROGRAM):
        (folder(tmp_path) / "server.json").write_text(json.dumps({**left, "pid": 1}))
        there = find_server(tmp_path)
        assert there is not None
        assert there.address is None


def test_looking_for_a_server_does_not_prevent_its_start(tmp_path: Path) -> None:
    with ProgramLock(folder(tmp_path), SERVER_PROGRAM):
        with pytest.raises(ProgramRunning):
            ProgramLock(folder(tmp_path), SERVER_PROGRAM)
        assert lock_holder(folder(tmp_path) / "program.lock") == os.getpid()
    for _ in range(20):
        assert find_server(tmp_path) is None
        ProgramLock(folder(tmp_path), SERVER_PROGRAM).close()


_HOLDING = """
import signal, sys
from pathlib import Path
from headrace.control.admin.lock import ProgramLock
with ProgramLock(Path(sys.argv[1]), "server"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "deaf" else signal.SIG_DFL)
    print("held", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("ears", ["deaf", "listening"])
def test_down_ends_the_process_that_holds_the_lock_by_force_at_the_timeout(tmp_path: Path, ears: str) -> None:
    with pytest.raises(ServerNotRunning):
        stop_server(tmp_path, 1)
    command = [sys.executable, "-c", _HOLDING, str(folder(tmp_path)), ears]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        stopped = stop_server(tmp_path, 1 if ears == "deaf" else 60)
        assert (stopped.pid, stopped.forced) == (process.pid, ears == "deaf")
        assert process.wait(10) == -(signal.SIGKILL if ears == "deaf" else signal.SIGTERM)
    assert find_server(tmp_path) is None


_WITH_WORKER = """
import signal, subprocess, sys
from pathlib import Path
from headrace.control.admin.lock import ProgramLock
with ProgramLock(Path(sys.argv[1]), "server"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    worker = subprocess.Popen(["sleep", "600"], start_new_session=True)
    worker.send_signal(signal.SIGSTOP)
    print(worker.pid, flush=True)
    signal.pause()
"""


def test_down_kills_the_worker_processes_of_a_server_that_does_not_stop(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITH_WORKER, str(folder(tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = psutil.Process(int(process.stdout.readline()))
        stop_server(tmp_path, 0)
        process.wait(10)
    assert psutil.wait_procs([worker], timeout=10)[1] == []
