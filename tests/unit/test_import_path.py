"""Where Python processes import from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.import_path import add_folder, child_environment, safe_children

PRINT_MODULES = "import queue, neighbour; print(queue.__file__, neighbour.__file__)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module, and one named like Python's own. It is the working folder."""
    (tmp_path / "queue.py").write_text("raise AssertionError('imported')\n")
    (tmp_path / "neighbour.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return tmp_path


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], env=child_environment(), capture_output=True, text=True, check=False
    )


def test_a_child_does_not_import_from_the_working_folder(folder: Path) -> None:
    assert "No module named 'neighbour'" in _run(PRINT_MODULES).stderr
    assert str(folder) not in _run("import queue; print(queue.__file__)").stdout


def test_an_added_folder_hides_none_of_pythons_modules(folder: Path) -> None:
    add_folder(str(folder))
    add_folder(str(folder))
    assert sys.path.count(str(folder)) == 1
    ran = _run(PRINT_MODULES)
    assert ran.stdout.split() == [__import__("queue").__file__, str(folder / "neighbour.py")], ran.stderr


def test_at_a_prompt_the_working_folder_comes_after_pythons_modules(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    ran = _run(PRINT_MODULES)
    assert ran.stdout.split() == [__import__("queue").__file__, str(folder / "neighbour.py")], ran.stderr


@pytest.mark.parametrize("before", [None, "", "1"])
def test_the_environment_of_this_process_is_restored(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if before is None:
        monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONSAFEPATH", before)
    with safe_children():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ.get("PYTHONSAFEPATH") == before
