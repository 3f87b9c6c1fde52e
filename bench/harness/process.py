"""Runs one side once, in a new process group that is monitored while it runs and killed afterwards.

The process gets `--json {"settings", "folder", "services"}` and prints its outcome as one line of JSON, the last on
its standard output: `{"records", "seconds", "latencies", "extra"}`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench import ROOT
from bench.harness.case import Case, Work
from bench.harness.environments import interpreter
from bench.harness.measure import Sampler

PEERS = ROOT / "bench" / "peers"


class SideFailed(Exception):
    """A side ended with an error, took too long, or gave no outcome."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a side, and the resources it used."""

    outcome: Mapping[str, Any]
    usage: Mapping[str, float]


def command(table: str, case: Case, name: str) -> list[str]:
    """The command that starts the side, without its JSON."""
    side = case.sides[name]
    if side.script is None:
        return [sys.executable, "-m", "bench.side", table, case.name, name]
    requirements = PEERS / side.requirements if side.requirements else None
    return [str(interpreter(requirements)), str(PEERS / side.script)]


def execute(
    start: Sequence[str],
    work: Work,
    output: Path,
    timeout: timedelta,
    case: Case,
    services: Sequence[int] = (),
    root: Path = ROOT,
) -> Answer:
    """Run the side of the checkout in `root` to its end; raises `SideFailed` with the tail of its standard error."""
    request = json.dumps({"settings": dict(work.settings), "folder": str(work.folder), "services": dict(work.services)})
    with output.with_suffix(".out").open("wb+") as out, output.with_suffix(".err").open("wb+") as err:
        process = subprocess.Popen(
            [*start, "--json", request],
            cwd=root,
            env=_environment(root),
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        sampler = Sampler(process.pid, case.outside, services)
        try:
            late, cpu_seconds = _wait(process, timeout)
        finally:
            _end_group(process)
            usage = sampler.stop()
    if not case.outside:  # the kernel's count also holds what short-lived children used between two samples
        usage["tree_cpu_seconds"] = max(usage["tree_cpu_seconds"], cpu_seconds)
    if late:
        raise SideFailed(f"not done after {timeout.total_seconds():g} s")
    return Answer(_outcome(process.returncode, output), usage)


def _environment(root: Path) -> dict[str, str]:
    """The code of that checkout, whatever the virtual environment has installed."""
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}", "PYTHONUNBUFFERED": "1"}


def _wait(process: subprocess.Popen[bytes], timeout: timedelta) -> tuple[bool, float]:
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    alarm = threading.Timer(timeout.total_seconds(), end)
    alarm.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return late.is_set(), usage.ru_utime + usage.ru_stime


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the processes that the side left running, or the side itself after an interrupt."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        process.wait()


def _outcome(code: int, output: Path) -> Mapping[str, Any]:
    if code:
        raise SideFailed(_complaint(output.with_suffix(".err")) or f"ended with code {code}")
    lines = output.with_suffix(".out").read_text(errors="replace").strip().splitlines()
    try:
        outcome = json.loads(lines[-1])
        return {"latencies": (), "extra": {}, **outcome, "records": outcome["records"], "seconds": outcome["seconds"]}
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise SideFailed(f"its last line is no outcome: {lines[-1][:200] if lines else 'nothing'}") from error


def _complaint(file: Path) -> str:
    return file.read_text(errors="replace").strip()[-2000:]
