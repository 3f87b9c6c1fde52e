"""The runner of the suites: counts, second runs of failed tests, the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from tools.suites import SUITES, Result, Suite, main, print_table, run_suite

ROOT = Path(__file__).parents[3]
FLAKY = """
from pathlib import Path

def test_passes():
    pass

def test_passes_the_second_time():
    mark = Path(__file__).with_suffix(".mark")
    again = mark.exists()
    mark.touch()
    assert again
"""
BROKEN = "def test_fails():\n    assert False\n"


def suite(folder: Path, text: str, *, reruns: bool = True) -> Result:
    (folder / "test_sample.py").write_text(text)
    return run_suite(Suite("sample", ("test_sample.py", f"--rootdir={folder}"), reruns), folder, folder)


def test_a_test_that_passes_when_it_runs_once_more_is_flaky(tmp_path: Path) -> None:
    result = suite(tmp_path, FLAKY)
    assert (result.passed, result.failed) == (2, 0)
    assert [name.rsplit("::")[-1] for name in result.flaky] == ["test_passes_the_second_time"]
    assert "1 failed" in result.output.read_text()
    assert "1 passed" in (tmp_path / "sample-0.rerun.txt").read_text()


def test_a_suite_about_data_is_red_after_its_first_failure(tmp_path: Path) -> None:
    result = suite(tmp_path, FLAKY, reruns=False)
    assert (result.passed, result.failed, result.flaky) == (1, 1, ())


def test_a_test_about_data_is_red_after_its_first_failure(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = data\n")
    marked = FLAKY.replace("def test_passes_the_second", "import pytest\n@pytest.mark.data\ndef test_passes_the_second")
    result = suite(tmp_path, marked + BROKEN.replace("fails", "is_broken"))
    assert (result.passed, result.failed, result.flaky) == (1, 2, ())
    result = suite(tmp_path, FLAKY.replace(".mark", ".other"))
    assert (result.passed, result.failed, len(result.flaky)) == (2, 0, 1)


@pytest.mark.parametrize("text", [BROKEN, "import nothing_of_that_name", "def test("])
def test_a_test_that_fails_again_is_red(tmp_path: Path, text: str) -> None:
    result = suite(tmp_path, text)
    assert (result.passed, result.failed, result.flaky) == (0, 1, ())


def test_a_suite_without_tests_is_red(tmp_path: Path) -> None:
    assert suite(tmp_path, "").failed == 1


def test_many_failures_are_no_accident(tmp_path: Path) -> None:
    text = "\n".join(FLAKY.replace("_time", f"_time_{n}").replace(".mark", f".{n}") for n in range(4))
    result = suite(tmp_path, text)
    assert (result.failed, result.flaky) == (4, ())


def test_each_test_belongs_to_a_suite() -> None:
    chosen = {Path(argument) for one in SUITES for argument in one.arguments if argument.startswith("tests/")}
    folders = {file.parent for file in (ROOT / "tests").rglob("test_*.py")} - {ROOT / "tests"}
    outside = [
        folder
        for folder in folders
        if not any((ROOT / one) in (folder, *folder.parents) for one in (*chosen, Path("tests/unit")))
    ]
    assert outside == []


def test_the_table_ends_with_the_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = [Result(SUITES[0], 5, 1, 61.0, tmp_path), Result(SUITES[1], 7, 0, 9.0, tmp_path, ("a.py::b",))]
    print_table(results, 70.0, Console())
    printed = capsys.readouterr().out
    assert "a.py::b" in printed
    assert printed.splitlines()[-1] == "12 passed, 1 failed"


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert "unknown suites: nothing" in capsys.readouterr().out
