"""Temporary folders of processes that are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.control.workers.scratch import ScratchDirectory

MAKE = """
import sys
from headrace.control.workers.scratch import ScratchDirectory
scratch = ScratchDirectory()
(scratch.folder / "large").write_bytes(b"x" * 1000)
print(scratch.folder, flush=True)
sys.stdin.read()
"""


def test_folders_of_killed_processes_are_removed_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    own = ScratchDirectory()
    with subprocess.Popen([sys.executable, "-c", MAKE], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        ScratchDirectory().close()
        assert (left / "large").exists()
        other.kill()
    second = ScratchDirectory()
    assert sorted(tmp_path.iterdir()) == sorted([own.folder, second.folder])
    for one in (own, second, own):
        one.close()
    assert list(tmp_path.iterdir()) == []
