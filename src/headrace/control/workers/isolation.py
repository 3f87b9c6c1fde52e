"""Isolation of queries: all in this process with its Spark, all in one worker process, or a process per query.

In this process (`InProcess`) is small and quick to start. With one worker process (`SharedProcess`) this process has no
Spark, so a server stays responsive whatever Spark does. With a process per query (`ProcessPerQuery`), a query that runs
out of memory, or whose Spark dies, does not affect the others.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from headrace.contracts import Log
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.process import WorkerProcess, WorkerQueryHandle
from headrace.control.workers.protocol import QueryAssignment, WarmUp, WorkerConfig
from headrace.control.workers.spark_log import redirect_output
from headrace.engine.log_adapter import Position
from headrace.engine.query import prepare_query, start_query
from headrace.engine.spark.session import SparkSession, spark_session
from headrace.errors import BadSetting
from headrace.log.kafka.jars import spark_jars
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, serialize_plan
from headrace.settings import Settings

_FILES_PER_START = 3  # files that Spark keeps open for every query that was started
_MAX_STARTS = 10_000


class Isolation(Protocol):
    isolates_failures: ClassVar[bool]
    """Whether a query that fails leaves the others running."""

    def warm_up(self, then: WarmUp | None = None) -> None:
        """Start what queries share (Spark) before the first query does. With a worker process it returns at once."""
        ...

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        """`setup` declares the user-defined functions that the query calls; it runs in every process of the query."""
        ...

    @property
    def needs_restart(self) -> bool:
        """Whether the shared process has started so many queries that it should be restarted."""
        ...

    def close(self) -> None:
        """Release what queries share, after all are stopped; the next start creates it again."""
        ...


OnBatch = Callable[[Any], None]
"""Called with the query when a batch is done."""


@dataclass
class IsolationContext:
    """Common to all queries of a program."""

    program: str
    log: Log
    settings: Settings

    @property
    def needs_restart(self) -> bool:
        return False


class InProcess(IsolationContext):
    isolates_failures: ClassVar[bool] = False

    def warm_up(self, then: WarmUp | None = None) -> None:
        session = self._session()
        if then is not None:
            then(session, self.settings, lambda: False)

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        spark = self._session()
        return start_query(
            spark, self.log, query, self.settings, folder, lambda running, *_: on_batch(running), position, setup
        )

    def close(self) -> None:
        """Nothing to do: Spark ends with this process."""

    def _session(self) -> SparkSession:
        """The process's Spark session; created on first use."""
        with redirect_output(self.settings.storage.data / "logs" / "spark.log"):
            jars = spark_jars(self.settings) if self.settings.storage.log == "kafka" else ()
            return spark_session(self.settings, f"headrace {self.program}", jars=jars)


class ProcessPerQuery(IsolationContext):
    isolates_failures: ClassVar[bool] = True

    def warm_up(self, then: WarmUp | None = None) -> None:
        """Nothing to do: nothing is shared."""

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        prepared = prepare_query(
            self.log, query, self.settings, folder, position
        )  # raises here if the query is invalid
        assignment = QueryAssignment(serialize_plan(query), folder, position, setup)
        return WorkerQueryHandle(prepared, self._process_of(query.id), assignment, on_batch)

    def _process_of(self, query: str) -> WorkerProcess:
        return WorkerProcess(WorkerConfig(f"{self.program} {query}", self.settings))

    def close(self) -> None:
        """Nothing to do: each process ended with its query."""


@dataclass
class SharedProcess(ProcessPerQuery):
    """All queries run in one worker process, which is restarted if it has died."""

    _process: WorkerProcess | None = field(default=None, init=False)
    _starts: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def needs_restart(self) -> bool:
        return self._starts > _max_starts()

    def warm_up(self, then: WarmUp | None = None) -> None:
        self._shared_process().warm_up(then)

    def _process_of(self, query: str) -> WorkerProcess:
        del query
        self._starts += 1
        return self._shared_process()

    def _shared_process(self) -> WorkerProcess:
        with self._lock:
            if self._process is not None and self._process.has_ended:
                self._close()
            if self._process is None:
                self._process = WorkerProcess(WorkerConfig(self.program, self.settings, single_query=False))
            return self._process

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process, self._starts = None, 0


def _max_starts() -> int:
    """Limit of query starts in one process: Spark keeps a few files open for each (see `engine.spark.leaks`)."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_STARTS if files == resource.RLIM_INFINITY else min(files // 2 // _FILES_PER_START, _MAX_STARTS)


_ISOLATIONS: Mapping[str, Callable[[str, Log, Settings], Isolation]] = {"shared": InProcess, "process": ProcessPerQuery}


def create_isolation(program: str, log: Log, settings: Settings) -> Isolation:
    """The isolation that the settings name."""
    if settings.query.isolation not in _ISOLATIONS:
        raise BadSetting(
            f'setting "query.isolation" cannot be "{settings.query.isolation}"',
            fix=f"choose {' or '.join(_ISOLATIONS)}",
        )
    return _ISOLATIONS[settings.query.isolation](program, log, settings)
