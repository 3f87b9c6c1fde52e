"""Commands on the data folder of another user: an error with a fix, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.log.embedded import EmbeddedLog

NOBODY = 65534
# Runs the command twice, so that all modules are imported: another user may not be able to read them.
PROGRAM = f"""
import os, sys
from headrace import cli
from typer.testing import CliRunner
CliRunner().invoke(cli.app, sys.argv[1:])
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
cli.main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    with EmbeddedLog(tmp_path / "data"):
        pass
    (tmp_path / "data" / "logs").mkdir(exist_ok=True)
    (tmp_path / "data" / "logs" / "headrace.log").write_text('{"message": "secret"}\n')
    yield tmp_path / "data"
    tmp_path.chmod(0o755)
    (tmp_path / "data").chmod(0o755)


def as_another_user(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, "--data", str(data), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=60, check=False)


@pytest.mark.parametrize("command", ["status", "logs", "topic list"])
@pytest.mark.parametrize("hidden", [".", "..", "logs/headrace.log"], ids=["folder", "parent", "file"])
def test_a_data_folder_of_another_user_is_an_error_with_a_fix(folder: Path, command: str, hidden: str) -> None:
    (folder / hidden).resolve().chmod(0)
    done = as_another_user(folder, *command.split())
    assert "Traceback" not in done.stderr
    if hidden != "logs/headrace.log" or command == "logs":
        assert done.stderr.startswith("permission-denied: ")
        assert "fix: run the command as its owner" in done.stderr
        assert done.returncode == 1


@pytest.mark.parametrize("hidden", [".", ".."], ids=["folder", "parent"])
def test_doctor_reports_unreadable_files(folder: Path, hidden: str) -> None:
    (folder / hidden).resolve().chmod(0)
    done = as_another_user(folder, "doctor")
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert "run the command as its owner" in done.stdout
    assert "python" in done.stdout  # the other checks still run
