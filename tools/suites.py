"""Runs the test suites, two at a time, and prints a table of them: `python -m tools.suites [NAME ...]`, `make test`.

A test that fails runs once more by itself. If it passes then, it is flaky: the table names it, both outputs are kept in
`build/test`, and the run goes on. What asserts that no row is lost, doubled or different never gets this second run:
there, a result that varies is a bug in the product. Such are whole suites, and the tests that are marked `data`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PYTEST = (sys.executable, "-m", "pytest")
_SLOTS = 2
_LIMIT = 45 * 60.0  # seconds of one suite
_MOST_RERUNS = 3  # more failures in one suite are not flaky tests
_running: set[subprocess.Popen[bytes]] = set()

_PASSED, _FAILED = re.compile(r"\b(\d+) passed"), re.compile(r"\b(\d+) (?:failed|errors?)\b")
_TIMED = re.compile(r" in \d+\.\d+s")


@dataclass(frozen=True)
class Suite:
    """A run of pytest. `reruns`: whether a failed test that is not marked `data` runs once more."""

    name: str
    arguments: tuple[str, ...]
    reruns: bool = True


SUITES = (
    Suite("spark", ("-m", "not long and not server", "tests/spark"), reruns=False),
    Suite("docs", ("tests/docs",)),
    Suite("conformance", ("tests/conformance", "tests/contract"), reruns=False),
    Suite("integration", ("tests/integration",), reruns=False),
    Suite("package", ("tests/package",)),
    Suite("browser", ("tests/browser",)),
    Suite("servers", ("-m", "server", "tests/spark"), reruns=False),
    Suite("attack", ("-m", "not long", "tests/attack")),
    Suite("faults", ("tests/faults",), reruns=False),
    Suite("soak", ("tests/soak",)),
)
"""In the order in which they start."""


@dataclass(frozen=True)
class Result:
    """How a suite ended. `flaky` are the tests that passed when they ran once more."""

    suite: Suite
    passed: int
    failed: int
    seconds: float
    output: Path
    flaky: tuple[str, ...] = field(default=())


def run_suite(suite: Suite, folder: Path, root: Path = ROOT) -> Result:
    """Run a suite in `root`, and then each failed test once more by itself, if the suite allows it."""
    began = time.monotonic()
    output = folder / f"{suite.name}.txt"
    code = _pytest(suite.arguments, root, output, cache := folder / f"{suite.name}.cache")
    passed, failed = _counts(output.read_text(errors="replace"))
    failed = max(failed, int(code != 0))  # for example, the suite was killed at its time limit
    failures = _failed_tests(cache)
    flaky: tuple[str, ...] = ()
    if suite.reruns and 0 < failed == len(failures) <= _MOST_RERUNS:
        names = [folder / f"{suite.name}-{number}.rerun" for number in range(failed)]
        flaky = tuple(test for test, name in zip(failures, names, strict=True) if _passes(test, root, name))
    return Result(suite, passed + len(flaky), failed - len(flaky), time.monotonic() - began, output, flaky)


def _passes(test: str, root: Path, name: Path) -> bool:
    """Whether a test passes when it runs once more; one that is marked `data` does not run, and so does not pass."""
    arguments = ("-m", "not data", test)
    return _pytest(arguments, root, name.with_suffix(".rerun.txt"), name.with_suffix(".rerun.cache")) == 0


def _pytest(arguments: Sequence[str], root: Path, output: Path, cache: Path) -> int:
    """Run pytest in a session of its own, so that no process it started outlives its time limit."""
    shutil.rmtree(cache, ignore_errors=True)
    command = [*PYTEST, "-o", f"cache_dir={cache}", *arguments]
    with open(output, "wb") as file:
        process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    _running.add(process)
    try:
        return process.wait(_LIMIT)
    except subprocess.TimeoutExpired:
        return 1
    finally:
        _running.discard(process)
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failed_tests(cache: Path) -> list[str]:
    file = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def _counts(output: str) -> tuple[int, int]:
    """Returns how many tests have passed and failed, from pytest's last line with a time."""
    last = next((line for line in reversed(output.splitlines()) if _TIMED.search(line)), "")
    return sum(map(int, _PASSED.findall(last))), sum(map(int, _FAILED.findall(last)))


def print_table(results: Sequence[Result], seconds: float, console: Console) -> None:
    """Print a row for each suite, and the line with the totals that other programs read."""
    table = Table(title="test suites")
    for name in ("suite", "passed", "failed", "seconds", "flaky"):
        table.add_column(name, justify="left" if name in ("suite", "flaky") else "right")
    for one in results:
        cells = (one.suite.name, f"{one.passed:,}", f"{one.failed:,}", f"{one.seconds:,.0f}", "\n".join(one.flaky))
        table.add_row(*cells, style="red" if one.failed else "")
    console.print(table)
    console.print(f"All suites took {seconds / 60:.0f} min.")
    print(f"{sum(one.passed for one in results)} passed, {sum(one.failed for one in results)} failed")


def main(names: Sequence[str]) -> int:
    """Run the named suites, or all; the exit code is 1 if a test failed or a suite ran none."""
    folder = ROOT / "build" / "test"
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.rerun.txt"):
        file.unlink()
    if unknown := set(names) - {one.name for one in SUITES}:
        print(f"unknown suites: {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in SUITES)}")
        return 2
    selected = [one for one in SUITES if not names or one.name in names]
    began = time.monotonic()

    def run(suite: Suite) -> Result:
        result = run_suite(suite, folder)
        print(f"\n==== {suite.name} ====\n{result.output.read_text(errors='replace')}", flush=True)
        return result

    pool = ThreadPoolExecutor(_SLOTS)
    try:
        results = list(pool.map(run, selected))
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in tuple(_running):
            _kill(process)
        return 130
    print_table(results, time.monotonic() - began, Console(width=None if sys.stdout.isatty() else 120))
    return int(any(one.failed or not one.passed for one in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
