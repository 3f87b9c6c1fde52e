"""The pull workers of a server: processes that execute heavy pull queries, so that the server never pays for them.

A query is heavy if it is no key lookup, or calls a function that can grow its input. A worker executes one query at a
time, and is free as soon as it has computed the result. A worker whose query takes too long, is cancelled, or whose
client goes away is killed, and another one is started; a worker that dies ends only its query.
"""

from __future__ import annotations

import logging
import math
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.background_work import give_way
from headrace.control.serving.processes import Process
from headrace.control.serving.pull_execution import PullResult
from headrace.control.serving.pull_protocol import FrameType, PullRequest
from headrace.control.serving.result_rows import ResultRow
from headrace.control.serving.result_spool import ResultSpool, SpoolBudget
from headrace.control.serving.worker_process import PullWorker
from headrace.control.serving.worker_slots import WorkerSlots
from headrace.errors import (
    HeadraceError,
    PullQueryKilled,
    QueryEnded,
    QueryFailed,
    QueryKilled,
    QueryTimeLimitExceeded,
    error_from_dict,
)
from headrace.settings import Settings

_GRACE = 2.0
"""Seconds beyond the time limit in which a worker reports by itself that it is reached."""
_logger = logging.getLogger(__name__)


class PullWorkers:
    """The workers of a server; `settings.query.pull_workers` of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.count = settings.query.pull_workers
        self.slots = WorkerSlots(self.count)
        self.budget = SpoolBudget()
        self._lock = threading.Lock()
        self._idle: list[PullWorker] = []
        self._running: list[PullWorker] = []
        self._closed = False

    @property
    def running(self) -> list[int]:
        """The process ids of the workers that execute a query."""
        return [worker.pid for worker in list(self._running)]

    def start(self) -> None:
        """Start the workers ahead of the first query."""
        started = [PullWorker(self._settings) for _ in range(self.count)]
        with self._lock:
            self._idle += started

    @contextmanager
    def execute(self, request: PullRequest, process: Process) -> Iterator[PullResult]:
        """Execute a query on a free worker; read the result inside the context."""
        self.slots.take(process)
        try:
            execution = self._begin(request, process)
        except BaseException:
            self.slots.release(process.principal)
            raise
        try:
            yield execution.pulled()
        finally:
            execution.stop()

    def _begin(self, request: PullRequest, process: Process) -> _Execution:
        """Let a worker begin a query; a thread of its own receives the result."""
        process.check()
        worker = self._take()
        spool = ResultSpool(self._settings.storage.data, self.budget, process.principal)
        execution = _Execution(worker, request, process, spool)
        self._running.append(worker)
        process.assign(worker.pid)
        process.on_kill(execution.end)
        try:
            threading.Thread(target=self._receive, args=(execution,), name="pull worker", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._running.remove(worker)
            self._put_back(worker, is_done=False)
            raise
        return execution

    def _receive(self, execution: _Execution) -> None:
        give_way()  # also the process that takes the worker's place
        worker, is_done = execution.worker, False
        try:
            is_done = execution.receive()
        finally:
            try:
                self._running.remove(worker)
                self._put_back(worker, is_done)
            finally:
                self.slots.release(execution.process.principal)

    def _take(self) -> PullWorker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    return worker
                worker.close()
        return PullWorker(self._settings)

    def _put_back(self, worker: PullWorker, is_done: bool) -> None:
        if not is_done:
            worker.close()
            if self._closed:
                return
            try:
                worker = PullWorker(self._settings)  # now, so that the next query does not wait for its start
            except OSError as error:
                _logger.warning("no pull worker could be started ahead of the next query: %s", error)
                return
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """Kill all workers; queries that are running end with an error."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in list(self._running):
            worker.kill()
        for worker in idle:
            worker.close()


class _Execution:
    """A query on a worker. One thread receives its result, another reads it, and any ends it."""

    def __init__(self, worker: PullWorker, request: PullRequest, process: Process, spool: ResultSpool) -> None:
        self.worker, self.process = worker, process
        self._request, self._spool = request, spool
        self._lock = threading.Lock()
        self._has_worker, self._is_killed = True, False
        seconds = request.settings.query.pull_timeout.total_seconds()
        self._deadline = time.monotonic() + seconds + _GRACE if seconds else math.inf

    def pulled(self) -> PullResult:
        """The result, from its first frame on."""
        begin = self._spool.take()
        assert begin is not None, "a result has a state"
        return PullResult(pickle.loads(begin), self._batches())

    def _batches(self) -> Iterator[list[ResultRow]]:
        while (batch := self._spool.take()) is not None:
            yield pickle.loads(batch)

    def receive(self) -> bool:
        """Move the result from the worker to the spool; returns whether the worker can execute another query."""
        failure: HeadraceError | None = None
        try:
            self.worker.send(self._request)
            is_done = self._move()
        except Exception as error:
            failure = self._failure(error)
            is_done = isinstance(error, HeadraceError) and not isinstance(
                error, PullQueryKilled | QueryTimeLimitExceeded | QueryKilled
            )
        with self._lock:  # from here on nobody kills the worker for this query
            self._has_worker = False
            is_done = is_done and not self._is_killed  # it may have returned everything before
        self.process.worker = None
        self._spool.end(failure)
        return is_done

    def _move(self) -> bool:
        """Whether the worker returned everything; else the query was ended, or the client has gone away."""
        while True:
            try:
                frame, content = self.worker.read(self._deadline)
            except EOFError:
                if self._spool.is_closed:
                    return False
                raise
            if frame is FrameType.END:
                return True
            if frame is FrameType.FAILED:
                raise error_from_dict(pickle.loads(content))
            if not self._spool.put(content, self._deadline):
                return False

    def _failure(self, error: Exception) -> HeadraceError:
        match error:
            case HeadraceError():
                return error
            case TimeoutError():
                return _too_slow(self._request.settings)
            case EOFError():
                return _died(self.worker.close(), self._request.settings)
        _logger.exception("the result of a pull query could not be received")
        return QueryFailed(f"the pull query failed: {error!r}", fix="see the server's log")

    def end(self, reason: QueryEnded) -> None:
        """End it for a reason, which its reader gets."""
        self._spool.fail(reason)
        self._kill()

    def stop(self) -> None:
        """End it when the reader has read enough."""
        self._spool.close()
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._has_worker:
                self._is_killed = True
                self.worker.kill()


def _too_slow(settings: Settings) -> QueryTimeLimitExceeded:
    seconds = settings.query.pull_timeout.total_seconds()
    fix = "restrict the query with WHERE or LIMIT, or raise the setting query.pull_timeout"
    return QueryTimeLimitExceeded(f"the query took more than {seconds:g} s", fix=fix)


def _died(code: int | None, settings: Settings) -> HeadraceError:
    """The error for a worker that ended with a code, or by a signal."""
    if code == -signal.SIGXCPU:
        seconds = settings.query.pull_max_cpu.total_seconds()
        fix = "restrict the query with WHERE or LIMIT, or raise the setting query.pull_max_cpu"
        return QueryTimeLimitExceeded(f"the query used more than {seconds:g} s of processor time", fix=fix)
    how = "without a word" if code is None else f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
    _logger.warning("a pull worker ended %s in the middle of a query", how)
    return PullQueryKilled(
        f"the process of the query ended {how}",
        fix="select fewer rows, or let the query's functions create less; other queries are not affected",
    )
