"""A Python file that defines an app can replace a KSQL script."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Program

EXAMPLE = Path(__file__).parents[3] / "examples" / "python" / "clicks.py"


@pytest.fixture
def app(headrace: Program, tmp_path: Path) -> Path:
    return Path(shutil.copy(EXAMPLE, tmp_path / "app.py"))


def test_check_accepts_an_app(headrace: Program, app: Path) -> None:
    assert headrace("check", "app.py").err == "7 statements, no errors\n"


def test_errors_name_the_line_in_the_python_file(headrace: Program, app: Path) -> None:
    app.write_text(app.read_text().replace('sum("amount")', 'sum("amuont")'))
    line = next(number for number, text in enumerate(app.read_text().splitlines(), 1) if "amuont" in text)
    answer = headrace("run", "app.py", code=1).err
    assert f"app.py:{line}:" in answer
    assert 'did you mean "AMOUNT"?' in answer


def test_explain_shows_the_plan_of_an_app(headrace: Program, app: Path) -> None:
    answer = headrace("explain", "app.py").out
    assert "process -> stream" in answer
    assert "operator: VISITS" in answer
