"""A plan at work on Spark: started, watched, stopped, and gone on with from its checkpoint.

    running = start(spark, log, query, settings, folder)
    running.progress, running.position, running.failure()
    running.stop()

The query reads its topics and its *ticks*, an internal topic whose records say that time has passed; what it writes
becomes visible once per batch, exactly once, whatever dies in between.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.clock import SystemClock
from headrace.contracts import Log, dead_letter_spec, dead_letter_topic
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.engine.checkpoint import Checkpoint, Manifest, ticks_topic
from headrace.engine.failures import GONE, failure_of, retold
from headrace.engine.ground import Ground, Position, ground_of
from headrace.engine.native.choice import NATIVE, RECORD
from headrace.engine.native.flow import Flow, native_flow
from headrace.engine.native.work import is_final
from headrace.engine.outlook import merging, outlook_on
from headrace.engine.progress import Progress, batch_time
from headrace.engine.realtime.choice import REALTIME
from headrace.engine.realtime.course import Course
from headrace.engine.realtime.slots import hold
from headrace.engine.record.operator import OUTPUT_SPARK, run_stateless
from headrace.engine.record.processor import PageOperator
from headrace.engine.record.sink import PageSink
from headrace.engine.record.target import target_of
from headrace.engine.record.times import with_batch_time
from headrace.engine.record.work import work_for
from headrace.engine.recutting import recut
from headrace.engine.release import Line, end_idle_monitors
from headrace.engine.reports import Report
from headrace.engine.tidying import tidy
from headrace.engine.trimming import EVERY
from headrace.errors import Closed, HeadraceError
from headrace.log.topics import ensure_topic
from headrace.plan.layout import layouts_of
from headrace.plan.nodes import Query
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.engine.realtime.flow import RealtimeFlow


@dataclass(frozen=True)
class Prepared:
    """A query that can be run, here or in another process: its topics are there, and its checkpoint fits it."""

    query: Query
    ground: Ground
    checkpoint: Checkpoint
    manifest: Manifest
    goes_on: bool
    """Whether it has done batches before."""

    @property
    def ticks(self) -> str:
        return ticks_topic(self.manifest.run)

    @property
    def topics(self) -> tuple[str, ...]:
        """All that it reads."""
        return topics_read(self.query, self.manifest)


class RunningQuery:
    """One query, from `start` to `stop`."""

    def __init__(self, prepared: Prepared, on_batch: OnBatch) -> None:
        self.query = prepared.query
        self.way = prepared.manifest.way
        self._life = prepared.manifest.run  # programs of one session may have queries of one name
        self.ticks = prepared.ticks
        self.topics = prepared.topics
        self.folder = prepared.checkpoint.folder
        self.goes_on = prepared.goes_on
        self.progress = Progress()
        self.read_at: int | None = None
        self._course = Course(self.progress)
        self._realtime: RealtimeFlow | None = None
        self._begun = prepared.checkpoint.position()
        self.ground = prepared.ground
        self.spark_folder = prepared.checkpoint.spark
        self._start = prepared.manifest.start
        self._checkpoint = prepared.checkpoint
        self._on_batch = on_batch
        self._error: BaseException | None = None
        self._spark: StreamingQuery | None = None
        self._line = Line()
        self._turn = threading.Lock()
        self._draining = False
        self._batch = -1

    @property
    def position(self) -> Position | None:
        """How far the query's input is done and committed, as its source tells it; None before the first batch."""
        last = self._asked("lastProgress")
        if self.way == REALTIME:
            self._course.add(self._asked("recentProgress") or ())
        offset = last["sources"][0]["endOffset"] if last else None
        if isinstance(offset, str):
            return json.loads(offset)
        # What a realtime query did is told a moment after it is noted: until then nobody may take it for done.
        noted = self._begun if self.way == REALTIME else self._checkpoint.position()
        return offset or noted or self._start

    def waiting(self) -> int:
        """How many records the query has yet to read; a batch that follows without any counts as one."""
        if self._realtime is not None:
            return self._realtime.waiting(self.position)
        return self.ground.waiting(self.topics, self.position) + self.progress.follows

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
        except GONE:
            return None

    @property
    def batch_time(self) -> Mapping[str, int]:
        last = self._asked("lastProgress")
        if last is not None and last["numInputRows"]:
            self.progress.last["time"] = batch_time(last)
        return self.progress.last.get("time", {})

    def failure(self) -> HeadraceError | None:
        """Why the query ended, if it did not just stop."""
        if self._draining:
            return None
        if isinstance(self._error, HeadraceError):
            return self._error
        try:
            error = self._spark.exception() if self._spark is not None else None
        except GONE:
            error = ChildProcessError("Spark's process has ended")
        return None if error is None else failure_of(error, self.query.id, self.folder)

    def stop(self) -> None:
        """Let the batch under way end, start no other, and give back what the query held."""
        self.drain()
        if self._spark is not None:
            with suppress(*GONE):
                self._spark.stop()
                tidy(self._spark, self.spark_folder)
                self._line.close()
                end_idle_monitors()
            self._spark = None  # it leads to `guarded`, and that back to here, by ways that no collector sees

    def drain(self) -> None:
        """Let the batch under way end, and start no other: Spark's own `stop` would break it off.

        Spark notes a batch as done a moment after it is written; without that it would be computed once more. In real
        time that is now and then, and is waited for if there was something to do since.
        """
        self._draining, patience = True, _PATIENCE
        if self._realtime is not None and self._has_more():
            self._batch = self._checkpoint.done() + 1
            patience += self._realtime.every.total_seconds()
        with self._turn:
            given_up = time.monotonic() + patience
        while self._batch > self._checkpoint.done() and self.is_active and time.monotonic() < given_up:
            time.sleep(0.01)

    def _has_more(self) -> bool:
        """Whether there is anything that Spark has not noted as done."""
        with suppress(HeadraceError):  # a log that is gone: then nothing is written either
            return self.waiting() > 0
        return False

    def run(self, flow: Flow | RealtimeFlow) -> None:
        """Begin."""
        if not isinstance(flow, Flow):
            self._realtime, writing = flow, flow.writing()
        else:
            writing = flow.rows.writeStream.foreachBatch(self._guarded(flow.write)).outputMode(flow.mode)
        folder = str(self._checkpoint.spark)
        self._spark = writing.queryName(self._life).option("checkpointLocation", folder).start()
        if self._realtime is not None:
            hold(self._spark, self._realtime.slots)

    def report(self, batch: int, reports: list[Report]) -> None:
        """What a batch was like, once it is in the log."""
        self._batch = batch
        self.progress.add(reports)
        self._on_batch(self, batch, reports)
        if batch % EVERY == EVERY - 1:
            self._trim()

    def _trim(self) -> None:
        done = self._checkpoint.done()
        try:
            self.ground.trim(self._life, self.topics, done, self._checkpoint.position(done))
        except HeadraceError as error:  # the next time will do
            _logger.warning("what query %s keeps for a replay was not looked through: %s", self.query.id, error)

    def _guarded(self, write: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        """Spark hands errors on as text; those of ours are kept."""

        def guarded(rows: Any, batch: int) -> None:
            try:
                with self._turn:
                    self._line.note()
                    if self._draining:
                        raise Closed(f"query {self.query.id} was stopped before batch {batch}")
                    self.read_at = SystemClock().now()
                    write(rows, batch)
            except BaseException as error:
                self._error = error
                raise

        return guarded


OnBatch = Callable[[RunningQuery, int, list[Report]], None]
"""Is told when a batch is in the log: its number, and what its tasks say."""
_PATIENCE = 15.0  # seconds
_logger = logging.getLogger(__name__)
_STARTING = ("Initializing", "Getting offsets")
"""What Spark says of a query that is being started."""


def start(
    spark: SparkSession,
    log: Log,
    query: Query,
    settings: Settings,
    folder: Path,
    on_batch: OnBatch = lambda running, batch, reports: None,
    start: Position | None = None,
    setup: Setup = no_setup,
) -> RunningQuery:
    """Start a query, or go on with it; its topics must be there. A new one reads what lies behind `start`."""
    prepared = prepare(log, query, settings, folder, start)
    manifest, running = prepared.manifest, RunningQuery(prepared, on_batch)
    ticks = [name for name in running.topics if name == running.ticks]
    begin, run = prepared.ground.starting(manifest.start, ticks), manifest.run
    with retold(query.id, folder):
        prepared.checkpoint.settle()
        recut(log, prepared.checkpoint, manifest, running.topics, settings.batch_rows)
        if manifest.way == NATIVE:
            flow = native_flow(
                spark, log, query, settings, folder, run, running.report, start=begin, setup=setup, ticks="".join(ticks)
            )
        elif manifest.way == REALTIME:
            from headrace.engine.realtime.flow import realtime_flow  # its client is an extra

            flow = realtime_flow(spark, log, query, manifest.run, manifest.start, settings.realtime_every)  # type: ignore[arg-type]
        else:
            flow = _record_flow(spark, log, running, manifest, begin, setup, merging(query, settings))
        running.run(flow)
    return running


def prepare(log: Log, query: Query, settings: Settings, folder: Path, start: Position | None = None) -> Prepared:
    """Make all ready, or refuse; may be repeated."""
    checkpoint = Checkpoint(folder)
    told = outlook_on(log, query, settings, checkpoint.way())
    manifest = checkpoint.opened(query, told.way, told.pages or 1, topics_of(query), start)
    prepared = Prepared(query, ground_of(log, settings), checkpoint, manifest, checkpoint.done() >= 0)
    if prepared.ticks in prepared.topics:
        ensure_topic(log, prepared.ticks)
    ensure_topic(log, dead_letter_topic(query.sink.topic), dead_letter_spec(log.topic(query.sink.topic).spec))
    return prepared


def _record_flow(
    spark: SparkSession, log: Log, running: RunningQuery, manifest: Manifest, begin: str, setup: Setup, merging: bool
) -> Flow:
    """What keeps nothing, and reads one topic, whose order its tasks have, needs no operator with state."""
    query, ground = running.query, running.ground
    keeps = bool(manifest.state) or len(query.sources) > 1
    layouts = layouts_of(query, [log.topic(name) for name in running.topics])
    # Without an operator nothing must meet: in one page a partition's records keep their order, whatever their keys.
    count, target = manifest.pages if keeps else 1, target_of(query.sink, log.topic(query.sink.topic))
    work = work_for(query, layouts, running.ticks, count, setup, target=target, merges=merging)
    pages = with_batch_time(ground.pages(spark, work, running.topics, begin), query)
    sinks = (query.sink.topic, dead_letter_topic(query.sink.topic))
    sink = PageSink(ground.outlet(manifest.run, running.folder), sinks, running.report)
    if keeps:
        operator = PageOperator(work, sink.finish())
        rows = pages.groupBy("page").transformWithStateInPandas(operator, OUTPUT_SPARK, "append", "None")
    else:
        rows = pages.mapInArrow(run_stateless(work, sink.finish()), OUTPUT_SPARK)
    return Flow(rows, sink.write, "append")


def topics_of(query: Query) -> tuple[str, ...]:
    """What a query reads."""
    return tuple(dict.fromkeys(source.topic for source in query.sources))


def topics_read(query: Query, manifest: Manifest) -> tuple[str, ...]:
    """The same with its ticks; natively only windows that come out once have deadlines, and need ticks."""
    has_ticks = manifest.way == RECORD or (manifest.way == NATIVE and is_final(query))
    return (*manifest.topics, ticks_topic(manifest.run)) if has_ticks else manifest.topics
