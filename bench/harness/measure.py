"""CPU and memory of a run: of the side's whole process tree, and of the services it uses.

Memory is sampled. There are two figures: RSS, and private memory. Private memory excludes file-backed pages, which
belong to the page cache and can be evicted, and counts a page that a worker shares with the process it was forked
from only once. The peak is that of the sum over the tree.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

MB = 1_000_000
_EVERY = 0.1  # seconds between samples
_LIST_EVERY = 5  # samples between searches for new processes: listing all of /proc is the expensive part


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
                memory = resident(process.pid)
            except (psutil.Error, OSError):
                continue
            rss, private = rss + memory[0], private + memory[1]
        self.peak_rss, self.peak_private = max(self.peak_rss, rss), max(self.peak_private, private)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())


def resident(pid: int) -> tuple[int, int]:
    """A process's RSS, and its share of the pages without a file, in bytes."""
    rss = _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS")
    return rss * 1024, own_memory(pid)


def _kilobytes(file: Path, *names: str) -> int:
    fields = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
    return sum(int(fields.get(name, "0 kB").split()[0]) for name in names)


class Sampler:
    """Watches a process tree and the trees of services until it is stopped.

    Processes of the tree whose command has one of the words in `outside` are counted separately.
    """

    def __init__(self, pid: int, outside: Sequence[str] = (), services: Sequence[int] = ()) -> None:
        self.tree, self.services, self.outside = Usage(), Usage(), Usage()
        self._root, self._outside, self._services = pid, tuple(outside), tuple(services)
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
        if self._outside:
            metrics["outside_private_mb"] = self.outside.peak_private / MB
        if self._services:
            metrics["service_cpu_seconds"] = sum(cpu_seconds(pid) for pid in self._services) - self._services_before
            metrics["service_peak_rss_mb"] = self.services.peak_rss / MB
        return metrics

    def _watch(self) -> None:
        tree: list[psutil.Process] = []
        outside: list[psutil.Process] = []
        services = [process for pid in self._services for process in process_tree(pid)]
        turn = 0
        while not self._done.wait(_EVERY if turn else 0):
            if turn % _LIST_EVERY == 0:
                all_of_it = process_tree(self._root)
                outside = [process for process in all_of_it if self._is_outside(process)]
                tree = [process for process in all_of_it if process not in outside]
            self.tree.add(tree)
            self.outside.add(outside)
            self.services.add(services)
            turn += 1

    def _is_outside(self, process: psutil.Process) -> bool:
        try:
            return any(word in part for part in process.cmdline() for word in self._outside)
        except psutil.Error:
            return True  # it has ended


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and all its descendants that are alive."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants so far."""
    usage = Usage()
    usage.add(process_tree(pid))
    return usage.cpu_seconds


def tree_pss(pid: int) -> int:
    """Bytes of memory of a process and its descendants; a shared page counts in proportion."""
    total = 0
    for process in process_tree(pid):
        with suppress(OSError):
            total += pss(process.pid)
    return total


def pss(pid: int) -> int:
    """Bytes of memory of one process."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss") * 1024


def own_memory(pid: int) -> int:
    """The same without files: how much of a library counts depends on which other processes have it open."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss_Anon", "Pss_Shmem") * 1024


@dataclass
class Elapsed:
    """The measured part of a run."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Elapsed]:
    """Times the body: wall-clock, and CPU of this process and of children that ended within it."""
    measured = Elapsed()
    before, start = os.times(), time.perf_counter()
    yield measured
    measured.seconds = time.perf_counter() - start
    measured.cpu_seconds = sum(os.times()[:4]) - sum(before[:4])
