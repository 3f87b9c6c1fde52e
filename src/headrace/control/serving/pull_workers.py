"""The pull workers of a server: processes that execute heavy pull queries, so that the server never pays for them.

A query is heavy if it is no key lookup, or calls a function that can grow its input. A worker executes one query at a
time. A few queries wait for a free worker, others are refused at once. A worker whose query takes too long, is
cancelled, or whose client goes away is killed, and another one is started; a worker that dies ends only its query.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from headrace.control.serving.processes import Process
from headrace.control.serving.pull_execution import PullResult
from headrace.control.serving.pull_protocol import LENGTH, FrameType, PullRequest
from headrace.control.serving.result_rows import ResultRow
from headrace.errors import (
    HeadraceError,
    PullQueryKilled,
    QueryEnded,
    QueryKilled,
    QueryTimeLimitExceeded,
    ServerBusy,
    error_from_dict,
)
from headrace.import_path import child_environment
from headrace.lang.contract import ProcessState
from headrace.settings import Settings

_WAITING_PER_WORKER = 4
_WAIT_SECONDS = 10.0
"""How long a query waits for a free worker."""
_GRACE = 2.0
"""Seconds beyond the time limit in which a worker reports by itself that it is reached."""
_logger = logging.getLogger(__name__)


class PullWorker:
    """One process. `read` and `send` are called by one thread at a time, `kill` by any."""

    def __init__(self, settings: Settings) -> None:
        memory = str(int(settings.query.pull_max_memory))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace.control.serving.pull_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**child_environment(), "HEADRACE_PULL_MEMORY": memory},
            start_new_session=True,  # Ctrl-C goes to the server only
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, request: PullRequest) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, which reading the answer reports
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()

    def read(self, deadline: float) -> tuple[FrameType, Any]:
        """The next frame."""
        (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        return pickle.loads(self._read(length, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        file, data = self._process.stdout.fileno(), bytearray()
        while len(data) < size:
            wait = max(0.0, deadline - time.monotonic())
            if not select.select([file], [], [], min(wait, _GRACE))[0]:
                if not wait:
                    raise TimeoutError
                continue
            part = os.read(file, min(size - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def kill(self) -> None:
        self._process.kill()

    def end(self, reason: QueryEnded) -> None:
        """Kill it for a reason, which its query reports."""
        del reason
        self.kill()

    def close(self) -> int:
        """Kill the process and release its pipes; returns how it had ended, or the signal."""
        self.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        return code


class PullWorkers:
    """The workers of a server; `settings.query.pull_workers` of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.count = settings.query.pull_workers
        self._lock = threading.Lock()
        self._free = threading.Semaphore(self.count)
        self._waiting = 0
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
        process.state = ProcessState.WAITING
        self._wait()
        worker, is_done = None, False
        try:
            worker = self._take()
            self._running.append(worker)
            process.assign(worker.pid)
            process.on_kill(worker.end)
            process.check()
            seconds = request.settings.query.pull_timeout.total_seconds()
            deadline = time.monotonic() + seconds + _GRACE if seconds else float("inf")
            frames = _frames(worker, request, deadline, process)
            state = next(frames)
            batches = _Batches(frames)
            yield PullResult(state, batches)
            is_done = batches.ended
        except HeadraceError as error:
            is_done = not isinstance(error, PullQueryKilled | QueryTimeLimitExceeded | QueryKilled)
            raise
        finally:
            try:
                process.detach()  # from here on nobody kills the worker for this query
                if worker is not None:
                    self._running.remove(worker)
                    self._put_back(worker, is_done)
            finally:
                self._free.release()

    def _wait(self) -> None:
        """Wait until a worker is free, for a short time, and not behind too many others."""
        if self._free.acquire(blocking=False):
            return
        with self._lock:
            if self._waiting >= _WAITING_PER_WORKER * self.count:
                raise _busy(self.count)
            self._waiting += 1
        try:
            if not self._free.acquire(timeout=_WAIT_SECONDS):
                raise _busy(self.count)
        finally:
            with self._lock:
                self._waiting -= 1

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


class _Batches:
    """The batches of rows, and whether they were read to their end, so that the worker is free again."""

    def __init__(self, frames: Generator[Any]) -> None:
        self._frames = frames
        self.ended = False

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> list[ResultRow]:
        try:
            return next(self._frames)
        except StopIteration:
            self.ended = True
            raise


def _frames(worker: PullWorker, request: PullRequest, deadline: float, process: Process) -> Generator[Any]:
    """The state, then the batches."""
    worker.send(request)
    try:
        while True:
            frame, content = worker.read(deadline)
            if frame is FrameType.END:
                return
            if frame is FrameType.FAILED:
                raise error_from_dict(content)
            yield content
    except TimeoutError:
        raise _too_slow(request.settings) from None
    except EOFError:
        process.check()
        raise _died(worker, request.settings) from None


def _busy(count: int) -> ServerBusy:
    return ServerBusy(
        f"all {count} pull workers are busy with queries that are no key lookups",
        fix="try again later, look up rows by their keys, or raise the setting query.pull_workers",
    )


def _too_slow(settings: Settings) -> QueryTimeLimitExceeded:
    seconds = settings.query.pull_timeout.total_seconds()
    fix = "restrict the query with WHERE or LIMIT, or raise the setting query.pull_timeout"
    return QueryTimeLimitExceeded(f"the query took more than {seconds:g} s", fix=fix)


def _died(worker: PullWorker, settings: Settings) -> HeadraceError:
    code = worker.close()
    if code == -signal.SIGXCPU:
        seconds = settings.query.pull_max_cpu.total_seconds()
        fix = "restrict the query with WHERE or LIMIT, or raise the setting query.pull_max_cpu"
        return QueryTimeLimitExceeded(f"the query used more than {seconds:g} s of processor time", fix=fix)
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
    _logger.warning("a pull worker ended %s in the middle of a query", how)
    return PullQueryKilled(
        f"the process of the query ended {how}",
        fix="select fewer rows, or let the query's functions create less; other queries are not affected",
    )
