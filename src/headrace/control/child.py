"""One query in a process of its own, with a Spark of its own: `python -m headrace.control.child`, started by `apart`.

What to do comes through standard input, what happened goes out through what was standard output (see `assignment`).
When the input ends, the parent is gone, however it went: then this process ends at once, in the middle of whatever it
does. That is safe, since it may be killed at any moment. Spark's process ends with it, since its own input does.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import traceback
from contextlib import closing
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any, BinaryIO, TextIO

from headrace import logfile
from headrace.control.assignment import DRAIN, STOP, Assignment
from headrace.engine.failures import failure_of
from headrace.engine.query import RunningQuery, start
from headrace.engine.realtime.choice import REALTIME
from headrace.engine.reports import Report
from headrace.engine.session import end_spark, spark_session
from headrace.errors import HeadraceError
from headrace.log import open_log
from headrace.log.jars import spark_jars

_PAUSE = 0.5  # seconds between two looks at the query
_SHORT_PAUSE = 0.05  # while it is starting


class Child:
    def __init__(self, assignment: Assignment, orders: BinaryIO, out: TextIO) -> None:
        self._assignment = assignment
        self._orders = orders
        self._out = out
        self._turn = threading.Lock()
        self._running: RunningQuery | None = None
        self._over = threading.Event()

    def run(self) -> None:
        """Until the query fails or is stopped."""
        threading.Thread(target=self._obey, name="headrace-orders", daemon=True).start()
        try:
            self._work()
        except HeadraceError as error:
            self._say(failed=error.as_dict())
        except Exception as error:
            traceback.print_exc()  # into Spark's log
            self._say(failed=failure_of(error, self._assignment.plan.id, self._assignment.folder).as_dict())

    def _work(self) -> None:
        given = self._assignment
        # The parent looks after the log: merging and retention are not done once more for each query.
        settings = replace(given.settings, upkeep_every=timedelta(0))
        logfile.configure(settings)
        jars = spark_jars(settings) if settings.log == "kafka" else ()
        with closing(open_log(settings)) as log:
            spark = spark_session(settings, f"headrace {given.program} {given.plan.id}", jars=jars)
            self._running = running = start(
                spark, log, given.plan, settings, given.folder, self._told, given.start, given.setup
            )
            self._watch(running)
            running.stop()

    def _watch(self, running: RunningQuery) -> None:
        while running.is_starting and not self._over.wait(_SHORT_PAUSE):
            pass
        self._say(begun=True)
        while not self._over.wait(_PAUSE):
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
        self._say(batch=batch, reports=told, ms=running.batch_time, read_at=running.read_at)

    # -- the parent -------------------------------------------------------------------------------------------------

    def _obey(self) -> None:
        for line in self._orders:
            word = line.decode().strip()
            if word == DRAIN:
                self._drain()
            elif word == STOP:
                self._over.set()
        if not self._over.is_set():
            os._exit(1)

    def _drain(self) -> None:
        if self._running is not None:
            self._running.drain()
        self._say(drained=True)
        if self._running is None:  # it has not begun: there is nothing to be lost
            end_spark()
            os._exit(0)

    def _say(self, **words: Any) -> None:
        with self._turn:
            print(json.dumps(words), file=self._out, flush=True)


def main() -> None:
    # Spark's processes inherit standard output: they get the log file that is standard error.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    Child(pickle.load(orders), orders, out).run()
    end_spark()
    sys.stderr.flush()
    os._exit(0)  # the thread that waits for orders must not be waited for


if __name__ == "__main__":
    main()
