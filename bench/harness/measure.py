"""CPU and memory of a run: of the side's whole process tree, and of the services beside it.

Memory is sampled. Two figures are kept: RSS, and RSS without file-backed pages (`private`), because pages of a mapped
file belong to the page cache and go when someone else needs the room. The peak is of the sum over the tree.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

MB = 1_000_000
_EVERY = 0.1  # seconds between samples
_LIST_EVERY = 5  # samples between looks for new processes: listing all of /proc is the dear part


@dataclass
class Usage:
    """What a set of processes used so far."""

    peak_rss: int = 0
    peak_private: int = 0
    cpu: dict[psutil.Process, float] = field(default_factory=dict)

    def add(self, processes: Sequence[psutil.Process]) -> None:
        rss = private = 0
        for process in processes:
            try:
                self.cpu[process] = sum(process.cpu_times()[:2])
                held = resident(process.pid)
            except (psutil.Error, OSError):
                continue
            rss, private = rss + held[0], private + held[1]
        self.peak_rss, self.peak_private = max(self.peak_rss, rss), max(self.peak_private, private)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())


def resident(pid: int) -> tuple[int, int]:
    """A process's RSS, and its RSS without file-backed pages, in bytes."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    rss, file = (int(fields.get(name, "0 kB").split()[0]) * 1024 for name in ("VmRSS", "RssFile"))
    return rss, rss - file


class Sampler:
    """Watches a process tree (but not programs named in `outside`) and the trees of services until it is stopped."""

    def __init__(self, pid: int, outside: Sequence[str] = (), services: Sequence[int] = ()) -> None:
        self.tree, self.beside = Usage(), Usage()
        self._root, self._outside, self._services = pid, frozenset(outside), tuple(services)
        self._services_before = sum(cpu_seconds(pid) for pid in services)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, float]:
        """The figures, as metrics of the run."""
        self._done.set()
        self._thread.join()
        metrics = {
            "tree_cpu_seconds": self.tree.cpu_seconds,
            "peak_rss_mb": self.tree.peak_rss / MB,
            "peak_private_mb": self.tree.peak_private / MB,
        }
        if self._services:
            metrics["service_cpu_seconds"] = sum(cpu_seconds(pid) for pid in self._services) - self._services_before
            metrics["service_peak_rss_mb"] = self.beside.peak_rss / MB
        return metrics

    def _watch(self) -> None:
        tree: list[psutil.Process] = []
        services = [process for pid in self._services for process in family(pid)]
        turn = 0
        while not self._done.wait(_EVERY if turn else 0):
            if turn % _LIST_EVERY == 0:
                tree = [process for process in family(self._root) if self._counts(process)]
            self.tree.add(tree)
            self.beside.add(services)
            turn += 1

    def _counts(self, process: psutil.Process) -> bool:
        try:
            return process.name() not in self._outside
        except psutil.Error:
            return False


def family(pid: int) -> list[psutil.Process]:
    """A process and all its descendants that are alive."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants so far."""
    usage = Usage()
    usage.add(family(pid))
    return usage.cpu_seconds


@dataclass
class Lap:
    """A measured stretch inside a side."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def lap() -> Iterator[Lap]:
    """Times the body: wall-clock, and CPU of this process and of children that ended within it."""
    measured = Lap()
    before, start = os.times(), time.perf_counter()
    yield measured
    measured.seconds = time.perf_counter() - start
    measured.cpu_seconds = sum(os.times()[:4]) - sum(before[:4])
