"""Lives of the job's driver, and what of them can be killed: the driver, its Python workers.

What a kill landed in is read from what is left: a batch that Spark has begun and not committed is in its checkpoint,
and on the embedded log the writer's number says whether the target had it already.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.faults.engine.job import PROGRAM
from tests.faults.log.worker_pool import end_session

from headrace.engine.checkpoint import Checkpoint
from headrace.faultpoints import VARIABLE
from headrace.settings import Settings

_DAEMONS = {"pyspark.daemon", "headrace.engine.spark.daemon"}
_FORK_SERVER, _LAUNCHER = "headrace.engine.spark.fork_server", "-IS"
STARTING, BETWEEN, BATCH = "starting", "between target and Spark commit", "a batch"


@dataclass
class DriverProcess:
    """A driver from its start to its end; it leads a session, in which all that it starts can be found."""

    name: str
    notes: Path
    process: subprocess.Popen[bytes]
    since: float = field(default_factory=time.monotonic)

    @property
    def working(self) -> bool:
        return (self.notes / f"{self.name}.working").exists()

    @property
    def mark(self) -> str:
        """The point at which it, or a worker of it, has killed itself."""
        path = self.notes / f"{self.name}.mark"
        return path.read_text() if path.exists() else ""

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def last_words(self) -> str:
        return (self.notes / f"{self.name}.err").read_text(errors="replace")

    def outlives(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return not self.ended

    def kill(self) -> bool:
        """Kill the driver alone: Spark's process sees it and goes, at its own pace. False if it had ended before."""
        if self.ended:
            return False
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL

    def clear(self) -> None:
        """End what it left."""
        if not self.ended:
            self.process.kill()
            self.process.wait()
        end_session(self.process.pid)

    def workers(self) -> list[psutil.Process]:
        return python_workers(self.process.pid)


def start_driver(name: str, given: Settings, notes: Path, until: str, point: str = "") -> DriverProcess:
    """Begin a life; `point` is `name:count`."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if point:
        environment[VARIABLE] = f"{point}:{notes / name}.mark"
    servers = given.kafka.bootstrap_servers if given.storage.log == "kafka" else "-"
    arguments = (str(given.storage.data), servers, given.spark.master, str(notes), name, until)
    with open(notes / f"{name}.err", "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.engine.driver", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
    return DriverProcess(name, notes, process)


def python_workers(pid: int) -> list[psutil.Process]:
    """Python processes of Spark's, but for those that only make others."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process for process in psutil.Process(pid).children(recursive=True) if _is_worker(process)]
    return []


def _is_worker(process: psutil.Process) -> bool:
    """A child of a daemon, or one of those that Spark starts without a daemon; forked or started."""
    try:
        line, parent = process.cmdline(), process.parent()
        if parent is None or not process.name().startswith("python") or _LAUNCHER in line:
            return False
        if _FORK_SERVER in line:  # forked processes have its command line, too
            of_daemon = (owner := parent.parent()) is not None and _FORK_SERVER in owner.cmdline()
            return _FORK_SERVER in parent.cmdline() and (of_daemon or not process.children())
        if _DAEMONS & set(line):
            return bool(_DAEMONS & set(parent.cmdline()))
        return any(word.startswith("pyspark.") for word in line)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def kind_of(process: psutil.Process) -> str:
    """What kind of worker it is."""
    with contextlib.suppress(psutil.NoSuchProcess):
        words = [word for word in process.cmdline() if word.startswith("pyspark.") and word not in _DAEMONS]
        return words[-1].rpartition(".")[2] if words else "worker"
    return "worker"


# -- what was under way ---------------------------------------------------------------------------------------------


def current_operation(given: Settings, program: str = PROGRAM) -> str:
    """What a program is, or died, inside of."""
    written = _written(given) if given.storage.log == "embedded" else {}
    inside = ""
    for checkpoint, begun in _begun(given.storage.data / "checkpoints" / program):
        manifest = checkpoint.manifest
        if manifest is not None and written.get(f"query.{manifest.run}", -1) >= begun:
            return BETWEEN
        inside = BATCH
    return inside


def _begun(folder: Path) -> Iterator[tuple[Checkpoint, int]]:
    """Queries with a batch that Spark has begun and not committed."""
    for path in folder.glob("*/manifest.json"):
        checkpoint = Checkpoint(path.parent)
        numbers = [int(p.name) for p in (checkpoint.spark / "offsets").glob("[0-9]*") if p.name.isdigit()]
        begun = max(numbers, default=-1)
        if begun > checkpoint.last_committed():
            yield checkpoint, begun


def _written(given: Settings) -> dict[str, int]:
    with contextlib.closing(
        sqlite3.connect(f"file:{given.storage.data / 'log.db'}?mode=ro", uri=True, timeout=30)
    ) as db:
        return dict(db.execute("SELECT name, last FROM writers WHERE last IS NOT NULL").fetchall())
