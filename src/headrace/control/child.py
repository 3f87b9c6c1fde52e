"""Queries in a process of their own, with a Spark of their own: `python -m headrace.control.child`, started by `apart`.

What to do comes through standard input, what happened goes out through what was standard output (see `assignment`).
When the input ends, the parent is gone, however it went: then this process ends at once, in the middle of whatever it
does. That is safe, since it may be killed at any moment. Spark's process ends with it, since its own input does; and
when Spark's has ended, so does this one.
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
from headrace.control.assignment import Assignment, Order, Post, Word
from headrace.engine.failures import failure_of
from headrace.engine.query import RunningQuery, start
from headrace.engine.realtime.choice import REALTIME
from headrace.engine.reports import Report
from headrace.engine.session import SparkSession, end_spark, spark_has_ended, spark_session
from headrace.errors import HeadraceError
from headrace.log import open_log
from headrace.log.jars import spark_jars

_PAUSE = 0.5  # seconds between two looks at a query
_SHORT_PAUSE = 0.05  # while it is starting


class Child:
    def __init__(self, post: Post, orders: BinaryIO, out: TextIO) -> None:
        # The parent looks after the log: merging and retention are not done once more for each query.
        self.settings = replace(post.settings, upkeep_every=timedelta(0))
        self.post = post
        self._orders = orders
        self._out = out
        self._turn, self._making = threading.Lock(), threading.Lock()
        self._ground: tuple[Log, SparkSession] | None = None
        self._members: dict[str, Member] = {}

    def run(self) -> NoReturn:
        """Until the parent goes, or the one query is stopped."""
        logfile.configure(self.settings)
        while (order := self._next()) is not None:
            if order.assignment is not None:
                self._members[order.query] = member = Member(self, order.query, order.assignment)
                threading.Thread(target=member.run, name=f"headrace-{order.query}", daemon=True).start()
            elif (member := self._members.get(order.query)) is None:
                self.say(order.query, drained=True)  # it has ended by itself
            elif order.word is Word.DRAIN:
                # Several may be drained at once, and each has a batch to wait for.
                threading.Thread(target=member.drain, daemon=True).start()
            else:
                member.over.set()
        os._exit(1)

    def _next(self) -> Order | None:
        try:
            return pickle.load(self._orders)
        except (EOFError, OSError, pickle.UnpicklingError):
            return None

    def ground(self) -> tuple[Log, SparkSession]:
        """The log and Spark, made when they are first asked for."""
        with self._making:
            if self._ground is None:
                jars = spark_jars(self.settings) if self.settings.log == "kafka" else ()
                spark = spark_session(self.settings, f"headrace {self.post.program}", jars=jars)
                self._ground = open_log(self.settings), spark
            return self._ground

    def forget(self, member: Member) -> None:
        """It has ended; another of its name may have been given meanwhile."""
        if self._members.get(member.name) is member:
            del self._members[member.name]

    def say(self, query: str, **words: Any) -> None:
        with self._turn:
            print(json.dumps({"query": query, **words}), file=self._out, flush=True)

    def leave(self) -> NoReturn:
        """The threads that wait for orders and for Spark must not be waited for."""
        end_spark()
        os._exit(0)


class Member:
    """One query, in a thread of its own."""

    def __init__(self, child: Child, name: str, assignment: Assignment) -> None:
        self._child = child
        self.name = name
        self._assignment = assignment
        self._running: RunningQuery | None = None
        self._drained = False
        self._turn = threading.Lock()
        self.over = threading.Event()

    def run(self) -> None:
        """Until the query fails or is stopped."""
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
        if self._child.post.alone or spark_has_ended():
            self._child.leave()

    def _work(self) -> None:
        given, child = self._assignment, self._child
        log, spark = child.ground()
        running = start(spark, log, given.plan(), child.settings, given.folder, self._told, given.start, given.setup)
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
            if running.way == REALTIME:
                self._look(running)

    def _look(self, running: RunningQuery) -> None:
        """In the realtime way nobody is told of batches: they are counted when somebody asks how far the query is."""
        before, progress = replace(running.progress, problems=dict(running.progress.problems)), running.progress
        if running.position is not None and progress.batches > before.batches:
            problems = {code: count - before.problems.get(code, 0) for code, count in progress.problems.items()}
            made = Report(0, progress.records - before.records, progress.written - before.written, problems)
            self._told(running, progress.last["batch"], [made])

    def _told(self, running: RunningQuery, batch: int, reports: list[Report]) -> None:
        told = [asdict(report) for report in reports]
        time = dict(running.batch_time)
        self._child.say(self.name, batch=batch, reports=told, time=time, read_at=running.read_at)

    def drain(self) -> None:
        with self._turn:
            self._drained, running = True, self._running
        if running is not None:
            self._drain(running)
        elif self._child.post.alone:  # it has not begun: there is nothing to be lost
            self._child.say(self.name, drained=True)
            self._child.leave()

    def _drain(self, running: RunningQuery) -> None:
        running.drain()
        self._child.say(self.name, drained=True)


def main() -> None:
    # Spark's processes inherit standard output: they get the log file that is standard error.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    Child(pickle.load(orders), orders, out).run()


if __name__ == "__main__":
    main()
