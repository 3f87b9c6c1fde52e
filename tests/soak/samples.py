"""A sample of a server's resources: memory by kind of process, open files and threads of all processes."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from bench.harness.measure import own_memory, process_tree

MB = 1_000_000


@dataclass(frozen=True)
class Sample:
    """`at` is in seconds since the beginning; memory is each page's share, in MB, but for files."""

    at: float
    server_mb: float
    spark_mb: float
    workers_mb: float
    files: int
    threads: int

    def __str__(self) -> str:
        return "  ".join(f"{name} {value:,.0f}" for name, value in asdict(self).items())


def sample(pid: int, at: float) -> Sample:
    """The server is the process itself; Spark is Java; what else there is are Python's workers."""
    memory, files, threads = Counter[str](), 0, 0
    for process in process_tree(pid):
        try:
            if _is_forking(process):
                continue
            memory[_kind(process, pid)] += own_memory(process.pid)
            files += _files(process)
            threads += process.num_threads()
        except (OSError, psutil.Error):
            continue  # it has ended meanwhile
    server, spark, workers = (memory[kind] / MB for kind in ("server", "spark", "workers"))
    return Sample(at, server, spark, workers, files, threads)


def _files(process: psutil.Process) -> int:
    """Without Spark's selectors, of three files each: it leaves one open for every query that was started, and there is
    no way to close it (see `engine.release`).
    """
    targets = list[str]()
    for file in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            targets.append(os.readlink(file))
    return len(targets) - (3 * targets.count("anon_inode:[eventpoll]") if process.name() == "java" else 0)


def _is_forking(process: psutil.Process) -> bool:
    """Java starts a program as a second self, with all its memory and files, for the moment until it is the other."""
    parent = process.parent()
    return parent is not None and parent.name() == "java" and process.exe() == parent.exe()


def _kind(process: psutil.Process, root: int) -> str:
    if process.pid == root:
        return "server"
    return "spark" if process.name() == "java" else "workers"
