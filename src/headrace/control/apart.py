"""Queries in other processes, as their program sees them: each a `Running` whose work is done by `child`.

A process has its own Spark, and runs one query or several. If it dies, of whatever, its queries have failed, with
`process-lost`; they may be started again from their checkpoints. It ends with this process: when a pipe closes, it
goes. It leads a group of processes, which is swept in the end, so that nothing of it is left behind.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.control.aside import appended
from headrace.control.assignment import Assignment, Order, Post, Word, error_of
from headrace.control.scratch import Scratch
from headrace.engine.ground import Position
from headrace.engine.progress import Progress
from headrace.engine.query import Prepared
from headrace.engine.reports import Report
from headrace.errors import HeadraceError, ProcessLost

_PATIENCE = 15.0  # seconds that a process, or a query, has to end by itself, once nothing is under way
Hear = Callable[[Mapping[str, Any]], None]


class Process:
    """A child; what it says of a query is heard by whoever gave it that query."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.fate = ""
        """How it ended."""
        self._ears: dict[str, Hear] = {}
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._closed = False
        self._scratch = Scratch()  # Spark's, which does not clean up when it is killed
        self._process = _spawned(post.settings.data / "logs" / "spark.log", str(self._scratch.folder))
        self._send(post)
        self._listener = threading.Thread(target=self._listen, name=f"headrace-{self.pid}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def give(self, query: str, assignment: Assignment, hear: Hear) -> None:
        """A query to run. It hears an empty word when the process has ended."""
        with self._turn:
            self._ears[query] = hear
        self._send(Order(Word.START, query, assignment))
        if self.has_ended:
            hear({})

    def say(self, word: Word, query: str) -> None:
        self._send(Order(word, query))

    def forget(self, query: str) -> None:
        with self._turn:
            self._ears.pop(query, None)

    def close(self) -> None:
        """Let it end by itself, then see to it that nothing of it is left; may be called again."""
        if self._closed:
            return  # its number may be another's
        self._closed = True
        assert self._process.stdin is not None
        if self.post.alone:  # it ends when its query does
            self._ended.wait(_PATIENCE)
        with suppress(OSError):
            self._process.stdin.close()
        self._ended.wait(_PATIENCE)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join()
        self._scratch.close()

    def _send(self, what: Post | Order) -> None:
        assert self._process.stdin is not None
        with self._turn, suppress(OSError, ValueError):  # it has ended: then there is nobody to be told
            pickle.dump(what, self._process.stdin)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                if line.endswith(b"\n"):  # else it died in the middle of it
                    self._hear(json.loads(line))
        finally:
            self.fate = _fate_of(self._process.pid)
            self._ended.set()
            with self._turn:
                ears = list(self._ears.values())
            for hear in ears:
                hear({})

    def _hear(self, told: Mapping[str, Any]) -> None:
        with self._turn:
            hear = self._ears.get(told["query"])
        if hear is not None:
            hear(told)


class QueryApart:
    def __init__(
        self, prepared: Prepared, process: Process, assignment: Assignment, on_batch: Callable[[QueryApart], None]
    ) -> None:
        self.query = prepared.query
        self.way = prepared.manifest.way
        self.ticks = prepared.ticks
        self.topics = prepared.topics
        self.folder = prepared.checkpoint.folder
        self.goes_on = prepared.goes_on
        self.progress = Progress()
        self.read_at: int | None = None
        self.batch_time: Mapping[str, int] = {}
        self._ground = prepared.ground
        self._checkpoint = prepared.checkpoint
        self._start = prepared.manifest.start
        self._on_batch = on_batch
        self._batch = self._first = prepared.checkpoint.done()
        self._failed: HeadraceError | None = None
        self._draining = False
        self._begun, self._drained, self._stopped, self._ended = (threading.Event() for _ in range(4))
        self._process = process
        process.give(self.query.id, assignment, self._hear)

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
        return self._failed is None and not self._stopped.is_set()

    @property
    def is_starting(self) -> bool:
        return self.is_active and not self._begun.is_set()

    def failure(self) -> HeadraceError | None:
        if self._failed is not None or self._draining or not self._ended.is_set():
            return self._failed
        return ProcessLost(
            f"the process of query {self.query.id} has {self._process.fate}",
            where=str(self.folder),
            fix="logs/spark.log of the data folder may tell why; a system kills what takes too much memory; run it "
            "again: it goes on where it was",
        )

    def drain(self) -> None:
        self._draining = True
        self._process.say(Word.DRAIN, self.query.id)
        self._drained.wait()

    def stop(self) -> None:
        self.drain()
        self._process.say(Word.STOP, self.query.id)
        if self._process.post.alone:
            self._process.close()
        else:
            self._stopped.wait(_PATIENCE)
        self._process.forget(self.query.id)

    def _hear(self, told: Mapping[str, Any]) -> None:
        if not told:  # the process has ended
            events = (self._ended, self._drained, self._stopped)
        elif "batch" in told:
            self._note(told)
            return
        elif "failed" in told:
            self._failed, events = error_of(told["failed"]), (self._drained,)
        else:
            named = {"begun": self._begun, "drained": self._drained, "stopped": self._stopped}
            events = [event for word, event in named.items() if word in told]
        for event in events:
            event.set()

    def _note(self, told: Mapping[str, Any]) -> None:
        """A batch is done."""
        self.batch_time, self.read_at = told["time"], told["read_at"]
        self.progress.add([Report(**report) for report in told["reports"]])
        self._batch = told["batch"]
        self._on_batch(self)


def _spawned(log: Path, scratch: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    with appended(log) as file:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace.control.child"],  # nothing from the working folder by itself
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env={**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_DIRS": scratch},
            start_new_session=True,  # Ctrl-C is the program's, which drains
        )


def _fate_of(pid: int) -> str:
    """How the process ended. It is left unreaped: what is left of its group can still be found by its number."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if found is None or found.si_code == os.CLD_EXITED:
        return f"ended with code {found.si_status if found else '?'}"
    return f"been ended by signal {signal.Signals(found.si_status).name}"
