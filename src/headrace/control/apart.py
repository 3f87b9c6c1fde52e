"""A query in a process of its own, as its program sees it: a `Running` whose work is done by `child`, told over pipes.

The child has its own Spark. If it dies, of whatever, only its query has failed, with `process-lost`; it may be started
again from its checkpoint. It ends with this process: when a pipe closes, it goes. It leads a group of processes, which
is swept when the query is stopped, so that nothing of it is left behind.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from headrace.control.aside import appended
from headrace.control.assignment import DRAIN, STOP, Assignment, error_of
from headrace.engine.ground import Position
from headrace.engine.progress import Progress
from headrace.engine.query import Prepared
from headrace.engine.reports import Report
from headrace.errors import HeadraceError, ProcessLost

_PATIENCE = 15.0  # seconds that a child has to end by itself, once nothing is under way


class QueryApart:
    def __init__(self, prepared: Prepared, assignment: Assignment, on_batch: Callable[[QueryApart], None]) -> None:
        self.query = prepared.query
        self.way = prepared.manifest.way
        self.ticks = prepared.ticks
        self.topics = prepared.topics
        self.folder = prepared.checkpoint.folder
        self.goes_on = prepared.goes_on
        self.progress = Progress()
        self.read_at: int | None = None
        self.batch_time: int | None = None
        self._ground = prepared.ground
        self._checkpoint = prepared.checkpoint
        self._start = prepared.manifest.start
        self._on_batch = on_batch
        self._batch = self._first = prepared.checkpoint.done()
        self._failed: HeadraceError | None = None
        self._draining = False
        self._begun, self._drained, self._ended = (threading.Event() for _ in range(3))
        self._fate = ""
        self._scratch = tempfile.mkdtemp(prefix="headrace-")  # Spark's, which does not clean up when it is killed
        self._process = _spawned(assignment, self._scratch)
        self._listener = threading.Thread(target=self._listen, name=f"headrace-{self.query.id}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def position(self) -> Position | None:
        """Of the last batch that is committed and of which this process has been told: what is counted by its reports
        must not lag behind what is seen to be done."""
        done = max(self._first, min(self._checkpoint.done(), self._batch))
        return self._checkpoint.position(done) or self._start

    def waiting(self) -> int:
        return self._ground.waiting(self.topics, self.position) + self.progress.follows

    @property
    def is_active(self) -> bool:
        return self._failed is None and not self._ended.is_set()

    @property
    def is_starting(self) -> bool:
        return self.is_active and not self._begun.is_set()

    def failure(self) -> HeadraceError | None:
        if self._failed is not None or self._draining or not self._ended.is_set():
            return self._failed
        return ProcessLost(
            f"the process of query {self.query.id} has {self._fate}",
            where=str(self.folder),
            fix="logs/spark.log of the data folder may tell why; a system kills what takes too much memory; run it "
            "again: it goes on where it was",
        )

    def drain(self) -> None:
        self._draining = True
        self._say(DRAIN)
        self._drained.wait()

    def stop(self) -> None:
        self.drain()
        if self._process.returncode is not None:
            return  # it was stopped before, and its number may be another's
        self._say(STOP)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._ended.wait(_PATIENCE)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # -- the child --------------------------------------------------------------------------------------------------

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended: then there is nobody to be told
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                if line.endswith(b"\n"):  # else it died in the middle of it
                    self._hear(json.loads(line))
        finally:
            self._fate = _fate_of(self._process.pid)
            self._ended.set()
            self._drained.set()

    def _hear(self, told: Mapping[str, Any]) -> None:
        if "batch" in told:
            self.batch_time, self.read_at = told["ms"], told["read_at"]
            self.progress.add([Report(**report) for report in told["reports"]])
            self._batch = told["batch"]
            self._on_batch(self)
        elif "failed" in told:
            self._failed = error_of(told["failed"])
        else:
            {"begun": self._begun, "drained": self._drained}[next(iter(told))].set()


def _spawned(assignment: Assignment, scratch: str) -> subprocess.Popen[bytes]:
    """The child, with its assignment on the way."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    with appended(assignment.settings.data / "logs" / "spark.log") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace.control.child"],  # nothing from the working folder by itself
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_DIRS": scratch},
            start_new_session=True,  # Ctrl-C is the program's, which drains
        )
    assert process.stdin is not None
    _send(process.stdin, assignment)
    return process


def _send(pipe: IO[bytes], assignment: Assignment) -> None:
    with suppress(OSError):  # it has died already: the listener says so
        pickle.dump(assignment, pipe)
        pipe.flush()


def _fate_of(pid: int) -> str:
    """How the process ended. It is left unreaped: what is left of its group can still be found by its number."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if found is None or found.si_code == os.CLD_EXITED:
        return f"ended with code {found.si_status if found else '?'}"
    return f"been ended by signal {signal.Signals(found.si_status).name}"
