"""The worker process, which runs queries on a Spark of its own: `python -m headrace.control.workers.worker`.

`process` starts it. Commands arrive on standard input; reports leave on what was standard output (see `protocol`). When
the input ends, the parent is gone, and the worker exits at once, whatever it is doing: it may be killed at any moment,
so that is safe. Spark's process ends with the worker because its own input ends, and the worker ends with Spark.
"""

from __future__ import annotations

import json
import os
import pickle
import threading
import traceback
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any, BinaryIO, NoReturn, TextIO

from headrace import logfile
from headrace.contracts import Log
from headrace.control.workers.protocol import CommandType, QueryAssignment, WorkerCommand, WorkerConfig
from headrace.engine.planning.realtime_support import REALTIME
from headrace.engine.query import RunningQuery, start_query
from headrace.engine.spark.failures import failure_of
from headrace.engine.spark.session import SparkSession, spark_has_stopped, spark_session, stop_spark
from headrace.engine.task_report import TaskReport
from headrace.errors import HeadraceError
from headrace.log import open_log
from headrace.log.kafka.jars import spark_jars

_PAUSE = 0.5  # seconds between checks of a query
_SHORT_PAUSE = 0.05  # while it is starting


class Worker:
    def __init__(self, post: WorkerConfig, orders: BinaryIO, out: TextIO) -> None:
        # The parent maintains the log: merging and retention must not run again in each worker.
        self.settings = post.settings.replace(storage_maintenance_interval=timedelta(0))
        self.post = post
        self._orders = orders
        self._out = out
        self._turn, self._making = threading.Lock(), threading.Lock()
        self._ground: tuple[Log, SparkSession] | None = None
        self._members: dict[str, QueryThread] = {}

    def run(self) -> NoReturn:
        """Run until the parent exits, or the only query is stopped."""
        logfile.configure(self.settings)
        while (order := self._next()) is not None:
            if order.assignment is not None:
                self._members[order.query] = member = QueryThread(self, order.query, order.assignment)
                threading.Thread(target=member.run, name=f"headrace-{order.query}", daemon=True).start()
            elif (member := self._members.get(order.query)) is None:
                self.say(order.query, drained=True)  # it has already ended
            elif order.word is CommandType.DRAIN:
                # In a thread, since several may be drained at once, and each waits for its batch.
                threading.Thread(target=member.drain, daemon=True).start()
            else:
                member.over.set()
        os._exit(1)

    def _next(self) -> WorkerCommand | None:
        try:
            return pickle.load(self._orders)
        except (EOFError, OSError, pickle.UnpicklingError):
            return None

    def ground(self) -> tuple[Log, SparkSession]:
        """The log and the Spark session, created on first use."""
        with self._making:
            if self._ground is None:
                jars = spark_jars(self.settings) if self.settings.storage.log == "kafka" else ()
                spark = spark_session(self.settings, f"headrace {self.post.program}", jars=jars)
                self._ground = open_log(self.settings), spark
            return self._ground

    def forget(self, member: QueryThread) -> None:
        """Remove a query that has ended, unless another of its name was assigned meanwhile."""
        if self._members.get(member.name) is member:
            del self._members[member.name]

    def say(self, query: str, **words: Any) -> None:
        with self._turn:
            print(json.dumps({"query": query, **words}), file=self._out, flush=True)

    def leave(self) -> NoReturn:
        """Stop Spark and exit without joining the threads that wait for commands and for Spark."""
        stop_spark()
        os._exit(0)


class QueryThread:
    """Runs one query in its own thread."""

    def __init__(self, child: Worker, name: str, assignment: QueryAssignment) -> None:
        self._child = child
        self.name = name
        self._assignment = assignment
        self._running: RunningQuery | None = None
        self._drained = False
        self._turn = threading.Lock()
        self.over = threading.Event()

    def run(self) -> None:
        """Run until the query fails or is stopped."""
        try:
            self._work()
        except HeadraceError as error:
            self._child.say(self.name, failed=error.as_dict())
        except Exception as error:
            traceback.print_exc()  # into Spark's log
            failure = failure_of(error, self.name, self._assignment.folder)
            self._child.say(self.name, failed=failure.as_dict())
        self._child.forget(self)
        self._child.say(self.name, stopped=True)
        if self._child.post.alone or spark_has_stopped():
            self._child.leave()

    def _work(self) -> None:
        given, child = self._assignment, self._child
        log, spark = child.ground()
        running = start_query(
            spark, log, given.plan(), child.settings, given.folder, self._told, given.start, given.setup
        )
        with self._turn:
            self._running = running
        if self._drained:
            self._drain(running)
        try:
            self._watch(running)
        finally:
            running.stop()

    def _watch(self, running: RunningQuery) -> None:
        while running.is_starting and not self.over.wait(_SHORT_PAUSE):
            pass
        self._child.say(self.name, begun=True)
        while not self.over.wait(_PAUSE):
            if (failure := running.failure()) is not None:
                raise failure
            if running.execution_mode == REALTIME:
                self._look(running)

    def _look(self, running: RunningQuery) -> None:
        """In realtime mode there is no callback for batches: reading `position` counts them."""
        before, progress = replace(running.progress, problems=dict(running.progress.problems)), running.progress
        if running.position is not None and progress.batches > before.batches:
            problems = {code: count - before.problems.get(code, 0) for code, count in progress.problems.items()}
            made = TaskReport(0, progress.records - before.records, progress.written - before.written, problems)
            self._told(running, progress.last["batch"], [made])

    def _told(self, running: RunningQuery, batch: int, reports: list[TaskReport]) -> None:
        told = [asdict(report) for report in reports]
        time = dict(running.batch_time)
        self._child.say(self.name, batch=batch, reports=told, time=time, read_at=running.read_at)

    def drain(self) -> None:
        with self._turn:
            self._drained, running = True, self._running
        if running is not None:
            self._drain(running)
        elif self._child.post.alone:  # it has not started: nothing can be lost
            self._child.say(self.name, drained=True)
            self._child.leave()

    def _drain(self, running: RunningQuery) -> None:
        running.drain()
        self._child.say(self.name, drained=True)


def main() -> None:
    # Spark's processes inherit standard output: point it to the log file, which is standard error.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    Worker(pickle.load(orders), orders, out).run()


if __name__ == "__main__":
    main()
