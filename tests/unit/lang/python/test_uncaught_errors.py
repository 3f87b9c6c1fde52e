"""A script that ends with a headrace error shows the error, at its line, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
import headrace as hr

app = hr.App("views")
views = app.stream("views", "who STRING KEY, page STRING")
views.where(hr.col.pge != "/").to_stream("others")
"""


def run(folder: Path, text: str, **environment: str) -> str:
    (folder / "app.py").write_text(text)
    command = [sys.executable, "app.py"]
    given = {**os.environ, "HEADRACE_TRACEBACK": "", **environment}
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return done.stderr


def test_a_misspelt_column_is_an_error_at_its_line(tmp_path: Path) -> None:
    lines = run(tmp_path, SCRIPT).splitlines()
    assert lines[0].startswith("column-not-found: ")
    assert lines[1] == "  at app.py:5:13"
    assert lines[-1] == '  fix: did you mean "PAGE"?'


@pytest.mark.parametrize(("line", "variable"), [("", "1"), ("1 / 0\n", "")], ids=["asked for", "another exception"])
def test_a_traceback_is_shown_on_request(tmp_path: Path, line: str, variable: str) -> None:
    text = SCRIPT.replace("views.where", f"{line}views.where")
    assert run(tmp_path, text, HEADRACE_TRACEBACK=variable).startswith("Traceback")
