"""Workers that start together, and the parts of a run that need no benchmark table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.harness.environments import interpreter
from bench.harness.measure import Usage, process_tree, resident, stopwatch
from bench.harness.workers import Gate, run_workers


def meet(index: int, gate: Gate, parent: int) -> tuple[int, bool]:
    gate.wait()
    return index, os.getpid() == parent


def fail_one(index: int, gate: Gate) -> None:
    if index == 1:
        raise ValueError("stumbled")
    gate.wait()


def test_threads_start_together() -> None:
    assert run_workers(meet, 2, os.getpid(), processes=False) == [(0, True), (1, True)]


def test_a_failed_worker_releases_the_others_and_its_error_is_raised() -> None:
    with pytest.raises(ValueError, match="stumbled"):
        run_workers(fail_one, 3, processes=False)


def test_a_peer_gets_an_environment_named_after_its_requirements(tmp_path: Path) -> None:
    wanted = tmp_path / "peer.txt"
    wanted.write_text("# nothing\n")
    python = interpreter(wanted, tmp_path / "cache")
    assert python.exists()
    assert interpreter(wanted, tmp_path / "cache") == python
    wanted.write_text("# nothing, said otherwise\n")
    assert interpreter(wanted, tmp_path / "cache") != python


def test_private_memory_is_less_than_resident_memory() -> None:
    rss, private = resident(os.getpid())
    assert 0 < private < rss
    usage = Usage()
    usage.add(process_tree(os.getpid()))
    assert usage.peak_rss >= usage.peak_private > 0
    assert usage.cpu_seconds > 0


def test_a_lap_measures_seconds_and_cpu() -> None:
    with stopwatch() as taken:
        sum(range(1000))
    assert taken.seconds > 0
    assert taken.cpu_seconds >= 0
