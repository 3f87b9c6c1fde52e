"""Parent side of worker processes: starts them, and gives each query in them a `QueryHandle` (see `worker`).

A worker process has its own Spark, and runs one query or several. If it dies, for whatever reason, its queries fail
with `process-lost`; they can be restarted from their checkpoints. It ends with this process: it exits when its input
pipe closes. It leads a process group, which is killed in the end, so that no process is left behind.

Nothing here waits for a worker without a limit: commands are sent by a thread of their own, since a process that hangs
does not read them, and what a query does not stop in time is ended by force.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.control.workers.protocol import (
    CommandType,
    QueryAssignment,
    WarmUp,
    WorkerCommand,
    WorkerConfig,
)
from headrace.control.workers.scratch import ScratchDirectory
from headrace.control.workers.spark_log import open_for_append
from headrace.engine.log_adapter import Position
from headrace.engine.progress import Progress
from headrace.engine.query import PreparedQuery
from headrace.engine.task_report import TaskReport
from headrace.errors import HeadraceError, ProcessLost, error_from_dict
from headrace.import_path import child_environment
from headrace.watched_lock import WatchedLock

_STOP_TIMEOUT = 15.0  # seconds that a process, or a query, has to stop by itself once it is drained
_FORCE_TIMEOUT = 5.0  # seconds that a query has to stop once it is interrupted, before its process is killed
_KILL_TIMEOUT = 10.0  # seconds that a killed process has to end
_logger = logging.getLogger(__name__)
MessageHandler = Callable[[Mapping[str, Any]], None]


class WorkerProcess:
    """A worker process; its messages about a query go to the handler that was registered with the query."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.exit_reason = ""
        """How the process ended."""
        self._handlers: dict[str, MessageHandler] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._close_lock = WatchedLock("end of a worker process")
        self._closed = False
        self._scratch = ScratchDirectory()  # for Spark, which does not clean up when it is killed
        self._process = _spawn(config.settings.storage.data / "logs" / "spark.log", str(self._scratch.folder))
        self._outbox: queue.SimpleQueue[WorkerConfig | WorkerCommand | None] = queue.SimpleQueue()
        self._outbox.put(config)
        self._sender = threading.Thread(target=self._send_all, name=f"headrace-to-{self.pid}", daemon=True)
        self._listener = threading.Thread(target=self._listen, name=f"headrace-{self.pid}", daemon=True)
        self._sender.start()
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def assign(self, query: str, assignment: QueryAssignment, handler: MessageHandler) -> None:
        """Assign a query to run. Its handler gets an empty message when the process has ended."""
        with self._lock:
            self._handlers[query] = handler
        self._outbox.put(WorkerCommand(CommandType.START, query, assignment))
        if self.has_ended:
            handler({})

    def warm_up(self, then: WarmUp | None) -> None:
        """Let it start Spark before the first query comes; does not wait for that."""
        self._outbox.put(WorkerCommand(CommandType.WARM_UP, "", warm_up=then))

    def send(self, command: CommandType, query: str) -> None:
        self._outbox.put(WorkerCommand(command, query))

    def forget(self, query: str) -> None:
        with self._lock:
            self._handlers.pop(query, None)

    def close(self) -> None:
        """Let the process end by itself, then kill what is left of its process group; idempotent."""
        if self.config.single_query:  # the process ends when its query does
            self._ended.wait(_STOP_TIMEOUT)
        self._outbox.put(None)
        self._ended.wait(_STOP_TIMEOUT)
        self.kill()

    def kill(self) -> None:
        """Kill the process group; idempotent."""
        with self._close_lock:
            if self._closed:
                return  # its pid may have been reused
            self._closed = True
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._await_end()
            self._outbox.put(None)
            self._sender.join(_KILL_TIMEOUT)
            self._scratch.close()

    def _await_end(self) -> None:
        """Wait until the killed process has ended; a process of its own may hold its pipe open for longer."""
        self._listener.join(_KILL_TIMEOUT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_TIMEOUT)
            return
        _logger.warning("process %s does not end although it was killed", self.pid)

    def _send_all(self) -> None:
        """Send commands until the process has ended, or None is next: that closes the pipe."""
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError, ValueError), pipe:  # the process has ended: there is no receiver
            while (message := self._outbox.get()) is not None:
                pickle.dump(message, pipe)
                pipe.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                if line.endswith(b"\n"):  # else the process died while writing the line
                    self._on_message(json.loads(line))
        finally:
            self.exit_reason = _exit_reason(self._process.pid)
            self._ended.set()
            with self._lock:
                handlers = list(self._handlers.values())
            for handler in handlers:
                handler({})

    def _on_message(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            handler = self._handlers.get(message["query"])
        if handler is not None:
            handler(message)


class WorkerQueryHandle:
    def __init__(
        self,
        prepared: PreparedQuery,
        process: WorkerProcess,
        assignment: QueryAssignment,
        on_batch: Callable[[WorkerQueryHandle], None],
    ) -> None:
        self.query = prepared.query
        self.execution_mode = prepared.manifest.execution_mode
        self.ticks = prepared.ticks
        self.topics = prepared.topics
        self.folder = prepared.checkpoint.folder
        self.resumed = prepared.resumed
        self.progress = Progress()
        self.read_at: int | None = None
        self.batch_time: Mapping[str, int] = {}
        self._log_adapter = prepared.log_adapter
        self._checkpoint = prepared.checkpoint
        self._start = prepared.manifest.start
        self._on_batch = on_batch
        self._batch = self._first = prepared.checkpoint.last_committed()
        self._failed: HeadraceError | None = None
        self._draining = False
        self._begun, self._drained, self._stopped, self._ended = (threading.Event() for _ in range(4))
        self._process = process
        process.assign(self.query.id, assignment, self._on_message)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def position(self) -> Position | None:
        """Position of the last batch that is committed and was reported to this process: counters from the reports must
        not lag behind the position."""
        done = max(self._first, min(self._checkpoint.last_committed(), self._batch))
        return self._checkpoint.position(done) or self._start

    def lag(self) -> int:
        return self._log_adapter.lag(self.topics, self.position) + self.progress.follows

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
            f"the process of query {self.query.id} has {self._process.exit_reason}",
            where=str(self.folder),
            fix="see logs/spark.log in the data folder; the system may have killed it for using too much memory; "
            "start it again and it resumes from its checkpoint",
        )

    def stop(self, timeout: float) -> None:
        self._draining = True
        self._process.send(CommandType.DRAIN, self.query.id)
        if is_drained := self._drained.wait(timeout):
            self._process.send(CommandType.STOP, self.query.id)
        else:
            _logger.warning(
                "query %s has not finished its batch after %g s: it is ended by force", self.query.id, timeout
            )
            self._process.send(CommandType.INTERRUPT, self.query.id)
        if self._process.config.single_query:
            self._process.close() if is_drained else self._process.kill()
        elif not self._stopped.wait(_STOP_TIMEOUT if is_drained else _FORCE_TIMEOUT):
            _logger.warning("query %s does not stop: its process %s is killed", self.query.id, self.pid)
            self._process.kill()
        self._process.forget(self.query.id)

    def _on_message(self, message: Mapping[str, Any]) -> None:
        if not message:  # the process has ended
            events = (self._ended, self._drained, self._stopped)
        elif "batch" in message:
            self._on_batch_report(message)
            return
        elif "failed" in message:
            self._failed, events = error_from_dict(message["failed"]), (self._drained,)
        else:
            named = {"begun": self._begun, "drained": self._drained, "stopped": self._stopped}
            events = [event for name, event in named.items() if name in message]
        for event in events:
            event.set()

    def _on_batch_report(self, message: Mapping[str, Any]) -> None:
        """Handle the report of a finished batch."""
        self.batch_time, self.read_at = message["time"], message["read_at"]
        self.progress.add([TaskReport(**report) for report in message["reports"]])
        self._batch = message["batch"]
        self._on_batch(self)


def _spawn(log: Path, scratch: str) -> subprocess.Popen[bytes]:
    with open_for_append(log) as file:
        return subprocess.Popen(
            [sys.executable, "-m", "headrace.control.workers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env={**child_environment(), "SPARK_LOCAL_DIRS": scratch},
            start_new_session=True,  # Ctrl-C goes to the parent only, which drains
        )


def _exit_reason(pid: int) -> str:
    """How the process ended. It is not reaped, so that its process group can still be addressed by its pid."""
    exit_info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if exit_info is None or exit_info.si_code == os.CLD_EXITED:
        return f"ended with code {exit_info.si_status if exit_info else '?'}"
    return f"been killed by signal {signal.Signals(exit_info.si_status).name}"
