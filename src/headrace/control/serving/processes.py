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
from headrace.errors import QueryKilled, UnknownProcess
from headrace.plan.actions import TransientSelect

MAX_TEXT = 1000
"""Characters of a statement that are shown."""


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
    worker: int | None = None
    """The id of the system's process that executes it; None: the server itself."""
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

    def kill(self, number: int, rights: Rights) -> None:
        """End a query: its client gets the error `query-killed`."""
        process = self._running.get(number)
        if process is None or not _may_see(process, rights):
            raise UnknownProcess(
                f"there is no running query with the id {number}", fix="GET /api/v1/processes lists the running ones"
            )
        process.kill(QueryKilled(f"the query was ended by {rights.principal.name}", fix="ask who ended it"))


def _may_see(process: Process, rights: Rights) -> bool:
    return rights.is_admin or rights.principal.name == process.principal
