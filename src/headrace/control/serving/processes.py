"""The pull and push queries that are running now, for everybody who asks what a server is doing: list and kill.

A process ends when its query does. It is not stored: after a restart there are none. Key lookups that take no thread
are not listed, because they take less time than listing them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.access.authorization import Rights
from headrace.clock import Clock
from headrace.control.serving.worker_usage import cpu_seconds, resident_bytes
from headrace.errors import QueryKilled
from headrace.lang.contract import ProcessState, ProcessStatus
from headrace.lang.interpreter import unknown_process
from headrace.plan.actions import TransientSelect

MAX_TEXT = 1000
"""Characters of a statement that are shown."""
_MAX_DIGITS = 20


class ProcessKind(StrEnum):
    PULL = "pull"
    PUSH = "push"


@dataclass
class Process:
    """A running query. `rows` and `bytes` are those of the result so far."""

    id: int
    kind: ProcessKind
    principal: str
    text: str
    started_at: int
    """In ms since 1970."""
    rows: int = 0
    bytes: int = 0
    state: ProcessState = ProcessState.RUNNING
    worker: int | None = None
    """The id of the system's process that executes it; None: the server itself."""
    _cpu_before: float = 0.0
    """Seconds of processor time that the worker had used before this query."""
    _killed: QueryKilled | None = field(default=None, repr=False)
    _on_kill: list[Callable[[QueryKilled], None]] = field(default_factory=list, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def on_kill(self, end: Callable[[QueryKilled], None]) -> None:
        """Calls a function when the process is killed; at once if it already was."""
        with self._lock:
            self._on_kill.append(end)
            if self._killed is not None:
                end(self._killed)

    def kill(self, reason: QueryKilled) -> None:
        with self._lock:
            if self._killed is None:
                self._killed = reason
                for end in self._on_kill:
                    end(reason)

    def detach(self) -> None:
        """After this no function that was to be called is called."""
        with self._lock:
            self._on_kill.clear()

    def check(self) -> None:
        """Raise if it was killed."""
        if self._killed is not None:
            raise self._killed

    def assign(self, worker: int) -> None:
        """Record the worker that begins to execute it."""
        self._cpu_before = cpu_seconds(worker) or 0.0
        self.worker, self.state = worker, ProcessState.RUNNING

    def status(self, now: int) -> ProcessStatus:
        """How it is now; `now` is in ms since 1970."""
        worker = self.worker
        used = None if worker is None else cpu_seconds(worker)
        return ProcessStatus(
            self.id,
            self.kind,
            self.principal,
            self.state,
            self.text,
            self.started_at,
            max(0, now - self.started_at) / 1000,
            self.rows,
            self.bytes,
            worker,
            None if used is None else round(used - self._cpu_before, 2),
            None if worker is None else resident_bytes(worker),
        )

    def count(self, rows: int, size: int) -> None:
        self.rows += rows
        self.bytes += size


class Processes:
    """All processes of a server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = itertools.count(1)
        self._running: dict[int, Process] = {}

    def begin(self, kind: ProcessKind, select: TransientSelect) -> Process:
        process = Process(
            next(self._numbers), kind, select.principal, select.text[:MAX_TEXT], started_at=self._clock.now()
        )
        self._running[process.id] = process
        return process

    def end(self, process: Process) -> None:
        self._running.pop(process.id, None)

    @contextmanager
    def running(self, kind: ProcessKind, select: TransientSelect) -> Iterator[Process]:
        """A process for as long as the context is open."""
        process = self.begin(kind, select)
        try:
            yield process
        finally:
            self.end(process)

    def visible(self, rights: Rights) -> list[Process]:
        """The principal's own processes; all of them for an admin."""
        return [process for process in list(self._running.values()) if _may_see(process, rights)]

    def statuses(self, rights: Rights) -> list[ProcessStatus]:
        """How those are now that the principal may see."""
        now = self._clock.now()
        return [process.status(now) for process in self.visible(rights)]

    def kill(self, id: str, rights: Rights) -> None:
        """End a query: its client gets the error `query-killed`. An id that is no number is unknown."""
        process = self._running.get(int(id)) if id.isdecimal() and len(id) < _MAX_DIGITS else None
        if process is None or not _may_see(process, rights):
            raise unknown_process(id)
        process.kill(QueryKilled(f"the query was ended by {rights.principal.name}", fix="ask who ended it"))


def _may_see(process: Process, rights: Rights) -> bool:
    return rights.is_admin or rights.principal.name == process.principal
