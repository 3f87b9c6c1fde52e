"""The worker process, which runs queries on a Spark of its own: `python -m headrace.control.workers.worker`.

`process` starts it. Commands arrive on standard input; reports leave on what was standard output (see `protocol`). When
the input ends, the parent is gone, and the worker exits at once, whatever it is doing: it may be killed at any moment,
so that is safe. Spark's process ends with the worker because its own input ends, and the worker ends with Spark.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import threading
import time
import traceback
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any, BinaryIO, NoReturn, TextIO

from headrace import logfile
from headrace.contracts import Log
from headrace.control.workers.protocol import CommandType, QueryAssignment, WarmUp, WorkerCommand, WorkerConfig
from headrace.engine.execution_mode import REALTIME
from headrace.engine.query import RunningQuery, start_query
from headrace.engine.spark.failures import RAISE_MEMORY, failure_of
from headrace.engine.spark.session import SparkSession, archive_classes, spark_has_stopped, spark_session, stop_spark
from headrace.engine.task_report import TaskReport
from headrace.errors import HeadraceError, OutOfMemory, SparkOutOfMemory
from headrace.log import open_log
from headrace.log.kafka.jars import spark_jars

_PAUSE = 0.5  # seconds between checks of a query
_SHORT_PAUSE = 0.05  # while it is starting
_logger = logging.getLogger("headrace.control.workers.worker")  # as the main module, its own name is no name


class Worker:
    def __init__(self, config: WorkerConfig, commands: BinaryIO, out: TextIO) -> None:
        # The parent maintains the log: merging and retention must not run again in each worker.
        self.settings = config.settings.replace(storage_maintenance_interval=timedelta(0))
        self.config = config
        self._commands = commands
        self._out = out
        self._lock, self._session_lock = threading.Lock(), threading.Lock()
        self._session: tuple[Log, SparkSession] | None = None
        self._queries: dict[str, QueryThread] = {}

    def run(self) -> NoReturn:
        """Run until the parent exits, or the only query is stopped."""
        logfile.configure(self.settings)
        while (command := self._next()) is not None:
            if command.assignment is not None:
                self._queries[command.query] = query = QueryThread(self, command.query, command.assignment)
                threading.Thread(target=query.run, name=f"headrace-{command.query}", daemon=True).start()
            elif command.type is CommandType.WARM_UP:
                threading.Thread(target=self._warm_up, args=[command.warm_up], daemon=True).start()
            elif (query := self._queries.get(command.query)) is None:
                self.report(command.query, drained=True)  # it has already ended
            elif command.type is CommandType.DRAIN:
                # In a thread, since several may be drained at once, and each waits for its batch.
                threading.Thread(target=query.drain, daemon=True).start()
            elif command.type is CommandType.INTERRUPT:
                threading.Thread(target=query.interrupt, daemon=True).start()
            else:
                query.stopped.set()
        os._exit(1)

    def _next(self) -> WorkerCommand | None:
        try:
            return pickle.load(self._commands)
        except (EOFError, OSError, pickle.UnpicklingError):
            return None

    def log_and_spark(self) -> tuple[Log, SparkSession]:
        """The log and the Spark session, created on first use."""
        with self._session_lock:
            if self._session is None:
                jars = spark_jars(self.settings) if self.settings.storage.log == "kafka" else ()
                spark = spark_session(self.settings, f"headrace {self.config.program}", jars=jars)
                self._session = open_log(self.settings), spark
            return self._session

    def _warm_up(self, then: WarmUp | None) -> None:
        """Get Spark ready for the first query, unless that comes first. A failure here is not one of a query."""
        began = time.monotonic()
        try:
            _, spark = self.log_and_spark()
            if then is not None and not self._queries:
                then(spark, self.settings, lambda: bool(self._queries))
            _logger.info("Spark is ready after %.0f s", time.monotonic() - began)
            archive_classes(self.settings)
        except Exception:
            _logger.warning("Spark was not warmed up; the first query takes longer to start", exc_info=True)

    def forget(self, query: QueryThread) -> None:
        """Remove a query that has ended, unless another of its name was assigned meanwhile."""
        if self._queries.get(query.name) is query:
            del self._queries[query.name]

    def report(self, query: str, **fields: Any) -> None:
        with self._lock:
            print(json.dumps({"query": query, **fields}), file=self._out, flush=True)

    def exit(self) -> NoReturn:
        """Stop Spark and exit without joining the threads that wait for commands and for Spark."""
        stop_spark()
        os._exit(0)


class QueryThread:
    """Runs one query in its own thread."""

    def __init__(self, worker: Worker, name: str, assignment: QueryAssignment) -> None:
        self._worker = worker
        self.name = name
        self._assignment = assignment
        self._running: RunningQuery | None = None
        self._drained = False
        self._lock = threading.Lock()
        self.stopped = threading.Event()

    def run(self) -> None:
        """Run until the query fails or is stopped."""
        try:
            self._run_query()
        except HeadraceError as error:
            self._report_failure(error)
        except Exception as error:
            traceback.print_exc()  # into Spark's log
            self._report_failure(failure_of(error, self.name, self._assignment.folder))
        self._worker.forget(self)
        self._worker.report(self.name, stopped=True)
        if self._worker.config.single_query or spark_has_stopped():
            self._worker.exit()

    def _report_failure(self, failure: HeadraceError) -> None:
        if self._worker.config.single_query and isinstance(
            failure, SparkOutOfMemory
        ):  # no other query can be the cause
            failure = OutOfMemory(f"query {self.name} ran out of memory", where=failure.where, fix=RAISE_MEMORY)
        self._worker.report(self.name, failed=failure.as_dict())

    def _run_query(self) -> None:
        assignment, worker = self._assignment, self._worker
        log, spark = worker.log_and_spark()
        running = start_query(
            spark,
            log,
            assignment.plan(),
            worker.settings,
            assignment.folder,
            self._report_batch,
            assignment.start,
            assignment.setup,
        )
        with self._lock:
            self._running = running
        if self._drained:
            self._drain(running)
        try:
            self._monitor(running)
        finally:
            running.stop()

    def _monitor(self, running: RunningQuery) -> None:
        while running.is_starting and not self.stopped.wait(_SHORT_PAUSE):
            pass
        self._worker.report(self.name, begun=True)
        while not self.stopped.wait(_PAUSE):
            if (failure := running.failure()) is not None:
                raise failure
            if running.execution_mode == REALTIME:
                self._report_realtime(running)

    def _report_realtime(self, running: RunningQuery) -> None:
        """In realtime mode there is no callback for batches: reading `position` counts them."""
        before, progress = replace(running.progress, problems=dict(running.progress.problems)), running.progress
        if running.position is not None and progress.batches > before.batches:
            problems = {code: count - before.problems.get(code, 0) for code, count in progress.problems.items()}
            report = TaskReport(0, progress.records - before.records, progress.written - before.written, problems)
            self._report_batch(running, progress.last["batch"], [report])

    def _report_batch(self, running: RunningQuery, batch: int, reports: list[TaskReport]) -> None:
        documents = [asdict(report) for report in reports]
        time = dict(running.batch_time)
        self._worker.report(self.name, batch=batch, reports=documents, time=time, read_at=running.read_at)

    def drain(self) -> None:
        with self._lock:
            self._drained, running = True, self._running
        if running is not None:
            self._drain(running)
        elif self._worker.config.single_query:  # it has not started: nothing can be lost
            self._worker.report(self.name, drained=True)
            self._worker.exit()

    def _drain(self, running: RunningQuery) -> None:
        running.drain()
        self._worker.report(self.name, drained=True)

    def interrupt(self) -> None:
        """End the current batch by force, and stop."""
        self.stopped.set()
        with self._lock:
            self._drained, running = True, self._running
        if running is not None:
            running.interrupt()


def main() -> None:
    # Spark's processes inherit standard output: point it to the log file, which is standard error.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    commands = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    Worker(pickle.load(commands), commands, out).run()


if __name__ == "__main__":
    main()
