"""A plan at work on Spark: started, watched, stopped, and gone on with from its checkpoint.

    running = start(spark, log, query, settings, folder)
    running.progress, running.position, running.failure()
    running.stop()

The query reads its topics and its *ticks*, an internal topic whose records say that time has passed; what it writes
becomes visible once per batch, exactly once, whatever dies in between.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.contracts import Log, dead_letter_spec, dead_letter_topic
from headrace.engine.batch.paging import pages_of
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.engine.checkpoint import Checkpoint, Manifest
from headrace.engine.ground import Ground, Position, ground_of
from headrace.engine.native.choice import NATIVE, RECORD, choose_way
from headrace.engine.native.flow import Flow, native_flow
from headrace.engine.progress import Progress
from headrace.engine.record.layout import layouts_of
from headrace.engine.record.operator import OUTPUT_SPARK, PageOperator, run_stateless
from headrace.engine.record.work import work_for
from headrace.engine.reports import Report
from headrace.errors import BadSetting, Closed, DiskFull, HeadraceError, ProcessLost, QueryFailed
from headrace.log.embedded import EmbeddedLog
from headrace.log.topics import ensure_topic
from headrace.plan.nodes import Query
from headrace.settings import Settings


def ticks_topic(run: str) -> str:
    """The topic of the ticks of one life of a query."""
    return f"__ticks.{run}"


class RunningQuery:
    """One query, from `start` to `stop`."""

    def __init__(
        self,
        query: Query,
        ground: Ground,
        checkpoint: Checkpoint,
        manifest: Manifest,
        on_batch: Callable[[RunningQuery], None],
    ) -> None:
        self.query = query
        self.way = manifest.way
        self._life = manifest.run  # programs of one session may have queries of one name
        self.ticks = ticks_topic(manifest.run)
        self.topics = (*manifest.topics, self.ticks)
        self.folder = checkpoint.folder
        self.goes_on = checkpoint.position() is not None
        """Whether it had done batches before it was started this time."""
        self.progress = Progress()
        self.ground = ground
        self.spark_folder = checkpoint.spark
        self._start = manifest.start
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        self._error: BaseException | None = None
        self._spark: StreamingQuery | None = None
        self._turn = threading.Lock()
        self._draining = False
        self._batch = -1

    @property
    def position(self) -> Position | None:
        """How far the query's input is done and committed, as its source tells it; None before the first batch."""
        last = self._asked("lastProgress")
        offset = last["sources"][0]["endOffset"] if last else None
        return json.loads(offset) if isinstance(offset, str) else offset or self._checkpoint.position() or self._start

    def waiting(self) -> int:
        """How many records the query has yet to read."""
        return self.ground.waiting(self.topics, self.position)

    @property
    def is_active(self) -> bool:
        return bool(self._asked("isActive"))

    @property
    def is_starting(self) -> bool:
        """Whether Spark has yet to ask the source for the first time, in a process that it starts for that."""
        status = self._asked("status") if self.is_active and self._asked("lastProgress") is None else None
        return status is not None and status["message"].startswith(_STARTING)

    def _asked(self, name: str) -> Any:
        """A property of Spark's query; None if there is no query, or Spark's process is gone."""
        try:
            return getattr(self._spark, name, None)
        except _GONE:
            return None

    @property
    def batch_time(self) -> int | None:
        """How many milliseconds the last batch took, as Spark counts."""
        last = self._asked("lastProgress")
        if last is not None and last["numInputRows"]:
            self.progress.last = {"milliseconds": last["batchDuration"]}
        return self.progress.last.get("milliseconds")

    def failure(self) -> HeadraceError | None:
        """Why the query ended, if it did not just stop."""
        if self._draining:
            return None
        if self._error is not None and isinstance(self._error, HeadraceError):
            return self._error
        try:
            error = self._spark.exception() if self._spark is not None else None
        except _GONE:
            error = ChildProcessError("Spark's process has ended")
        if error is None:
            return None
        if _NO_SPACE in str(error):
            return DiskFull(f"query {self.query.id} found no space left", where=str(self.folder), fix=_FREE)
        if any(sign in f"{error} {_stack(error)}" for sign in _LOST):
            return ProcessLost(f"query {self.query.id} lost a process of its own", where=str(self.folder), fix=_AGAIN)
        return QueryFailed(
            f"query {self.query.id} ended: {_cause(error)}",
            where=str(self._checkpoint.folder),
            fix="logs/spark.log of the data folder tells all; what was acknowledged is safe, start the query again",
        )

    def stop(self) -> None:
        """Let the batch under way end, start no other, and give back what the query held."""
        self.drain()
        if self._spark is not None:
            with suppress(*_GONE):
                self._spark.stop()

    def drain(self) -> None:
        """Let the batch under way end, and start no other: Spark's own `stop` would break it off.

        Spark notes a batch as done a moment after it is written; without that it would be computed once more.
        """
        self._draining = True
        with self._turn:
            given_up = time.monotonic() + _PATIENCE
        while self._batch > self._checkpoint.done() and self.is_active and time.monotonic() < given_up:
            time.sleep(0.01)

    def run(self, flow: Flow) -> None:
        """Begin."""
        self._spark = (
            flow.rows.writeStream.foreachBatch(self._guarded(flow.write))
            .queryName(self._life)
            .outputMode(flow.mode)
            .option("checkpointLocation", str(self._checkpoint.spark))
            .start()
        )

    def report(self, batch: int, reports: list[Report]) -> None:
        """What a batch was like, once it is in the log."""
        self._batch = batch
        self.progress.add(reports)
        self._on_batch(self)

    def _guarded(self, write: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        """Spark hands errors on as text; those of ours are kept."""

        def guarded(rows: Any, batch: int) -> None:
            try:
                with self._turn:
                    if self._draining:
                        raise Closed(f"query {self.query.id} was stopped before batch {batch}")
                    write(rows, batch)
            except BaseException as error:
                self._error = error
                raise

        return guarded


_PATIENCE = 5.0  # seconds
_GONE = (Py4JError, OSError)
_STARTING = ("Initializing", "Getting offsets")
"""What Spark says of a query that is being started."""
_LOST = ("failed to connect back", "Python worker exited unexpectedly", "java.io.EOFException", "Broken pipe")
"""What Spark says when a process of Python's has died, or was not there within its 10 s."""
_AGAIN = "run it again: it goes on where it was; a machine that is too busy may need fewer queries"
_NO_SPACE = "No space left on device"
_FREE = "free space or shorten retention, then run it again: it goes on where it was"
_TELLERS = ("pyspark.", "py4j.", "org.apache.", "java.")
"""Errors that only say that there was another."""


def _stack(error: BaseException) -> str:
    """Where Spark was; that the other end of a pipe is gone is told nowhere else."""
    cause = getattr(error, "_cause", None)
    return f"{getattr(error, '_stackTrace', '')} {'' if cause is None else _stack(cause)}"


_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Interrupt)|[\w.]*\.\w+): .*$", re.MULTILINE)


def _cause(error: BaseException) -> str:
    """What a person can use of a story that Spark tells through two languages: the innermost error of Python's."""
    text = str(error)
    found = (match.group(0) for match in _PYTHON_ERROR.finditer(text))
    lines = (line.strip() for line in text.splitlines())
    told = (line for line in found if not line.startswith(_TELLERS))
    return next(told, None) or next((line for line in lines if line), type(error).__name__)


def start(
    spark: SparkSession,
    log: Log,
    query: Query,
    settings: Settings,
    folder: Path,
    on_batch: Callable[[RunningQuery], None] = lambda running: None,
    start: Position | None = None,
    setup: Setup = no_setup,
) -> RunningQuery:
    """Start a query, or go on with it; its topics must be there. A new one reads what lies behind `start`."""
    ground, checkpoint = ground_of(log, settings), Checkpoint(folder)
    way = way_of(query, log, settings)
    pages = settings.pages if pages_of(query, timed=True).are_several else 1
    manifest = checkpoint.opened(query, way, pages, topics_of(query), start)
    running = RunningQuery(query, ground, checkpoint, manifest, on_batch)
    ensure_topic(log, running.ticks)
    ensure_topic(log, dead_letter_topic(query.sink.topic), dead_letter_spec(log.topic(query.sink.topic).spec))
    begin = ground.starting(manifest.start, running.ticks)
    if isinstance(log, EmbeddedLog) and way == NATIVE:
        flow = native_flow(spark, log, query, settings, folder, manifest.run, running.report, start=begin, setup=setup)
    else:
        flow = _record_flow(spark, log, running, manifest, begin, setup)
    running.run(flow)
    return running


def way_of(query: Query, log: Log, settings: Settings) -> str:
    """The way that the settings ask for, if the query can go it."""
    if settings.way not in (RECORD, NATIVE, "auto"):
        raise BadSetting(f'setting "way" cannot be "{settings.way}"', fix="choose record, native or auto")
    if settings.way == RECORD:
        return RECORD
    names = (*topics_of(query), query.sink.topic)
    choice = choose_way(query, {name: log.topic(name) for name in names})
    reasons = choice.reasons if isinstance(log, EmbeddedLog) else (*choice.reasons, "its log is Kafka")
    if reasons and settings.way == NATIVE:
        raise BadSetting(f"query {query.id} cannot run natively: {'; '.join(reasons)}", fix='set "way" to auto')
    return RECORD if reasons else NATIVE


def _record_flow(
    spark: SparkSession, log: Log, running: RunningQuery, manifest: Manifest, begin: str, setup: Setup
) -> Flow:
    """What keeps nothing, and reads one topic, whose order its tasks have, needs no operator with state."""
    query, ground = running.query, running.ground
    keeps = bool(manifest.state) or len(query.sources) > 1 or ground.always_shuffled
    layouts = layouts_of(query, [log.topic(name) for name in running.topics])
    # Without an operator nothing must meet: in one page a partition's records keep their order, whatever their keys.
    work = work_for(query, layouts, running.ticks, manifest.pages if keeps else 1, setup)
    pages = ground.pages(spark, work, running.topics, begin)
    if keeps:
        operator = PageOperator(work)
        rows = pages.groupBy("page").transformWithStateInPandas(operator, OUTPUT_SPARK, "append", "None")
    else:
        rows = pages.mapInArrow(run_stateless(work), OUTPUT_SPARK)
    sinks = (query.sink.topic, dead_letter_topic(query.sink.topic))
    return Flow(rows, ground.sink(manifest.run, sinks, running.spark_folder, running.report), "append")


def topics_of(query: Query) -> tuple[str, ...]:
    """What a query reads."""
    return tuple(dict.fromkeys(source.topic for source in query.sources))
