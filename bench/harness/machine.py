"""Describes the machine on which figures were measured."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from bench import ROOT


def describe(folder: Path) -> dict[str, Any]:
    """Hardware, system, versions and commit. `folder` tells which disk's fsync is timed."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),  # of the minute before: other processes distort a figure
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "fsync_ms": round(fsync_ms(folder), 3),
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain")),
        "libraries": {item.name: item.version for item in metadata.distributions()},
    }


def fsync_ms(folder: Path, times: int = 30) -> float:
    """Median time to make 4 KB durable: durable appends cannot be faster than this, and machines differ by 100 x."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f".fsync-{os.getpid()}"
    durations: list[float] = []
    try:
        with file.open("wb", buffering=0) as out:
            for _ in range(times):
                start = time.perf_counter()
                out.write(b"\0" * 4096)
                os.fsync(out.fileno())
                durations.append((time.perf_counter() - start) * 1000)
    finally:
        file.unlink(missing_ok=True)
    return statistics.median(durations)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
