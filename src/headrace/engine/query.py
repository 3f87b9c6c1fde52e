"""Runs a plan on Spark: start, monitor, stop, and resume from the checkpoint.

    running = start_query(spark, log, query, settings, folder)
    running.progress, running.position, running.failure()
    running.stop()

The query reads its topics and its *ticks*, an internal topic whose records say that time has passed. Its output becomes
visible once per batch, exactly once, whichever process crashes in between.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.clock import SystemClock
from headrace.contracts import Log, dead_letter_spec, dead_letter_topic
from headrace.engine.checkpoint import Checkpoint, Manifest, ticks_topic
from headrace.engine.execution_mode import NATIVE, REALTIME, RECORD
from headrace.engine.io.failing_batch import FailingBatchResume
from headrace.engine.io.oversized_batch import discard_oversized_batch
from headrace.engine.io.replay_retention import TRIM_INTERVAL_BATCHES
from headrace.engine.log_adapter import LogAdapter, Position, log_adapter_for
from headrace.engine.native.compiler import CompiledQuery, compile_native_query
from headrace.engine.native.task_spec import is_final
from headrace.engine.planning.mode import choose_execution_on, merges_changes
from headrace.engine.progress import Progress, batch_phases
from headrace.engine.realtime.progress_tracker import ProgressTracker
from headrace.engine.realtime.task_slots import reserve_slots
from headrace.engine.record.batch_time import with_batch_time
from headrace.engine.record.chain_operator import OUTPUT_SPARK_SCHEMA, run_stateless
from headrace.engine.record.sink import RecordSink
from headrace.engine.record.sink_columns import sink_columns
from headrace.engine.record.stateful_processor import KeyGroupProcessor
from headrace.engine.record.task_spec import record_task_spec
from headrace.engine.recovery import QueryRecovery
from headrace.engine.spark.failures import SPARK_GONE_ERRORS, failure_of, translate_errors
from headrace.engine.spark.leaks import CallbackConnection, stop_idle_monitors
from headrace.engine.spark.state_maintenance import run_state_maintenance
from headrace.engine.task_report import TaskReport
from headrace.errors import Closed, HeadraceError
from headrace.log.topic_spec import ensure_topic
from headrace.plan.analysis.record_layout import record_layouts
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, no_setup
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.engine.realtime.compiler import CompiledRealtimeQuery


@dataclass(frozen=True)
class PreparedQuery:
    """A query that is ready to run, here or in another process: its topics exist, and its checkpoint fits the plan."""

    query: Query
    log_adapter: LogAdapter
    checkpoint: Checkpoint
    manifest: Manifest
    resumed: bool
    """Whether it has committed batches before."""

    @property
    def ticks(self) -> str:
        return ticks_topic(self.manifest.run)

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that it reads."""
        return consumed_topics(self.query, self.manifest)


class RunningQuery:
    """One query, from `start_query` to `stop`."""

    def __init__(self, prepared: PreparedQuery, on_batch: OnBatch) -> None:
        self.query = prepared.query
        self.execution_mode = prepared.manifest.execution_mode
        self._run_id = prepared.manifest.run  # programs that share a session may have queries of the same name
        self.ticks = prepared.ticks
        self.topics = prepared.topics
        self.folder = prepared.checkpoint.folder
        self.resumed = prepared.resumed
        self.progress = Progress()
        self.read_at: int | None = None
        self._progress_tracker = ProgressTracker(self.progress)
        self._realtime: CompiledRealtimeQuery | None = None
        self._initial_position = prepared.checkpoint.position()
        self.log_adapter = prepared.log_adapter
        self.spark_folder = prepared.checkpoint.spark
        self._start = prepared.manifest.start
        self._checkpoint = prepared.checkpoint
        self._on_batch = on_batch
        self._error: BaseException | None = None
        self._spark: StreamingQuery | None = None
        self._callback_connection = CallbackConnection()
        self._batch_lock = threading.Lock()
        self._draining = False
        self._batch = -1

    @property
    def position(self) -> Position | None:
        """The input position that the query has committed, in its source's form; None before the first batch."""
        last = self._spark_property("lastProgress")
        if self.execution_mode == REALTIME:
            self._progress_tracker.add(self._spark_property("recentProgress") or ())
        offset = last["sources"][0]["endOffset"] if last else None
        if isinstance(offset, str):
            return json.loads(offset)
        # A realtime query reports its progress a moment after the checkpoint has it: until then it does not count as
        # done.
        committed = self._initial_position if self.execution_mode == REALTIME else self._checkpoint.position()
        return offset or committed or self._start

    def lag(self) -> int:
        """The lag in records; a batch that follows without new input counts as one."""
        if self._realtime is not None:
            return self._realtime.lag(self.position)
        return self.log_adapter.lag(self.topics, self.position) + self.progress.follows

    @property
    def is_active(self) -> bool:
        return bool(self._spark_property("isActive"))

    @property
    def is_starting(self) -> bool:
        """Whether Spark has yet to ask the source for offsets, in a process that it starts for that."""
        status = (
            self._spark_property("status") if self.is_active and self._spark_property("lastProgress") is None else None
        )
        return status is not None and status["message"].startswith(_STARTING_MESSAGES)

    def _spark_property(self, name: str) -> Any:
        """A property of Spark's query; None if there is no query, or if Spark's process is gone."""
        try:
            return getattr(self._spark, name, None)
        except SPARK_GONE_ERRORS:
            return None

    @property
    def batch_time(self) -> Mapping[str, int]:
        last = self._spark_property("lastProgress")
        if last is not None and last["numInputRows"]:
            self.progress.last["time"] = batch_phases(last)
        return self.progress.last.get("time", {})

    def failure(self) -> HeadraceError | None:
        """Why the query failed; None if it runs or was stopped."""
        if self._draining:
            return None
        error = self._error or self._spark_error()
        return None if error is None else failure_of(error, self.query.id, self.folder)

    def _spark_error(self) -> BaseException | None:
        if self._spark is None:
            return None
        try:
            is_active, error = self._spark.isActive, self._spark.exception()
        except SPARK_GONE_ERRORS:
            return ChildProcessError("Spark's process has ended")
        return error if is_active or error is not None else RuntimeError("Spark ended it without a reason")

    def stop(self, timeout: float = math.inf) -> None:
        """Finishes the current batch, starts no other, and releases the query's resources.

        A batch that is not finished after `timeout` seconds is interrupted; it is repeated after the next start.
        """
        self.drain(timeout)
        if self._spark is not None:
            with suppress(*SPARK_GONE_ERRORS):
                self._spark.stop()
                run_state_maintenance(self._spark, self.spark_folder)
                self._callback_connection.close()
                stop_idle_monitors()
            self._spark = None  # it leads to `guarded` and back to here, a cycle that no garbage collector sees

    def interrupt(self) -> None:
        """Ends the current batch by force: it is repeated after the next start."""
        self._draining = True
        if (spark := self._spark) is not None:
            with suppress(*SPARK_GONE_ERRORS):
                spark.stop()

    def drain(self, timeout: float = math.inf) -> None:
        """Finishes the current batch, and starts no other: Spark's own `stop` would interrupt it.

        Spark marks a batch as done a moment after it is written; without that mark the batch would be computed again.
        The real-time trigger writes the mark at intervals; it is awaited if there was input since.
        """
        self._draining, seconds = True, _DRAIN_SECONDS
        if self._realtime is not None and self._has_unmarked_input():
            self._batch = self._checkpoint.last_committed() + 1
            seconds += self._realtime.every.total_seconds()
        if not self._batch_lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)):
            return
        deadline = time.monotonic() + min(seconds, timeout)
        self._batch_lock.release()
        while self._batch > self._checkpoint.last_committed() and self.is_active and time.monotonic() < deadline:
            time.sleep(0.01)

    def _has_unmarked_input(self) -> bool:
        """Whether there is input that Spark has not marked as done."""
        with suppress(HeadraceError):  # the log is unreachable: then nothing is written either
            return self.lag() > 0
        return False

    def run(self, compiled: CompiledQuery | CompiledRealtimeQuery) -> None:
        """Starts the compiled query."""
        if not isinstance(compiled, CompiledQuery):
            self._realtime, writing = compiled, compiled.writing()
        else:
            writing = compiled.rows.writeStream.foreachBatch(self._keep_error(compiled.write)).outputMode(compiled.mode)
        folder = str(self._checkpoint.spark)
        self._spark = writing.queryName(self._run_id).option("checkpointLocation", folder).start()
        if self._realtime is not None:
            reserve_slots(self._spark, self._realtime.slots)

    def report(self, batch: int, reports: list[TaskReport]) -> None:
        """Records the reports of a batch, once it is in the log."""
        self._batch = batch
        self.progress.add(reports)
        self._on_batch(self, batch, reports)
        if batch % TRIM_INTERVAL_BATCHES == TRIM_INTERVAL_BATCHES - 1:
            self._trim()

    def _trim(self) -> None:
        done = self._checkpoint.last_committed()
        try:
            self.log_adapter.trim(self._run_id, self.topics, done, self._checkpoint.position(done))
        except HeadraceError as error:  # the next attempt will do
            _logger.warning("replay data of query %s was not cleaned up: %s", self.query.id, error)

    def _keep_error(self, write: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        """Keeps the original error. Spark gets a short one: its thread overflows its stack on a long text."""

        def run_batch(rows: Any, batch: int) -> None:
            try:
                with self._batch_lock:
                    self._callback_connection.remember()
                    if self._draining:
                        raise Closed(f"query {self.query.id} was stopped before batch {batch}")
                    self.read_at = SystemClock().now()
                    write(rows, batch)
            except BaseException as error:
                self._error = error
                if not self._draining:
                    _logger.info("batch %s of query %s failed", batch, self.query.id, exc_info=True)
                raise RuntimeError(f"batch {batch} failed") from None

        return run_batch


OnBatch = Callable[[RunningQuery, int, list[TaskReport]], None]
"""Called when a batch is in the log, with its number and its tasks' reports."""
_DRAIN_SECONDS = 15.0  # seconds
_logger = logging.getLogger(__name__)
_STARTING_MESSAGES = ("Initializing", "Getting offsets")
"""Spark's status messages of a query that is starting."""


def start_query(
    spark: SparkSession,
    log: Log,
    query: Query,
    settings: Settings,
    folder: Path,
    on_batch: OnBatch = lambda running, batch, reports: None,
    start: Position | None = None,
    setup: Setup = no_setup,
) -> RunningQuery:
    """Starts or resumes a query; its topics must exist. A new query reads the records after `start`."""
    prepared = prepare_query(log, query, settings, folder, start)
    with translate_errors(query.id, folder):
        prepared = resume_batch(log, prepared, settings)
    manifest, running = prepared.manifest, RunningQuery(prepared, on_batch)
    ticks = [name for name in running.topics if name == running.ticks]
    start_option, run = prepared.log_adapter.start_option(manifest.start, ticks), manifest.run
    with translate_errors(query.id, folder):
        prepared.checkpoint.repair_paths()
        if manifest.execution_mode == NATIVE:
            compiled = compile_native_query(
                spark,
                log,
                query,
                prepared.log_adapter,
                folder,
                run,
                running.report,
                start=start_option,
                setup=setup,
                ticks="".join(ticks),
            )
        elif manifest.execution_mode == REALTIME:
            from headrace.engine.realtime.compiler import compile_realtime_query  # needs an extra

            interval = settings.query.realtime_checkpoint_interval
            compiled = compile_realtime_query(spark, log, query, manifest.run, manifest.start, interval)  # type: ignore[arg-type]
        else:
            compiled = _compile_record_query(
                spark, log, running, manifest, start_option, setup, merges_changes(query, settings)
            )
        running.run(compiled)
    return running


def prepare_query(
    log: Log, query: Query, settings: Settings, folder: Path, start: Position | None = None
) -> PreparedQuery:
    """Prepares a query, or refuses it; may be repeated."""
    checkpoint, adapter = Checkpoint(folder), log_adapter_for(log, settings)

    def open_checkpoint(after: Position | None) -> Manifest:
        choice = choose_execution_on(log, query, settings, checkpoint.execution_mode)
        return checkpoint.open(query, choice.execution_mode, choice.key_groups or 1, input_topics(query), after)

    QueryRecovery(log, adapter, query, checkpoint).prepare(open_checkpoint)
    manifest = open_checkpoint(start)
    prepared = PreparedQuery(query, adapter, checkpoint, manifest, checkpoint.last_committed() >= 0)
    if prepared.ticks in prepared.topics:
        ensure_topic(log, prepared.ticks)
    ensure_topic(log, dead_letter_topic(query.sink.topic), dead_letter_spec(log.topic(query.sink.topic).spec))
    return prepared


def resume_batch(log: Log, prepared: PreparedQuery, settings: Settings) -> PreparedQuery:
    """Decides about a batch that has started and is not committed: it is repeated, or cut again."""
    checkpoint, manifest, sink = prepared.checkpoint, prepared.manifest, prepared.query.sink.topic
    discard_oversized_batch(log, checkpoint, manifest, prepared.topics, settings.query.max_batch_rows)
    on_failing = settings.query.on_failing_record
    ends = FailingBatchResume(log, checkpoint, manifest, prepared.topics, sink, on_failing).resume()
    return replace(
        prepared,
        log_adapter=prepared.log_adapter.split_at(ends) if ends else prepared.log_adapter,
        manifest=checkpoint.manifest or manifest,  # its start, if a record was left out
    )


def _compile_record_query(
    spark: SparkSession,
    log: Log,
    running: RunningQuery,
    manifest: Manifest,
    start_option: str,
    setup: Setup,
    merges: bool,
) -> CompiledQuery:
    """Compiles for the record mode. A stateless query over one topic, read in order, needs no stateful operator."""
    query, log_adapter = running.query, running.log_adapter
    is_stateful = bool(manifest.state) or len(query.sources) > 1
    layouts = record_layouts(query, [log.topic(name) for name in running.topics])
    # Without a stateful operator no records have to meet: in one key group a partition's records keep their order.
    count, target = manifest.key_groups if is_stateful else 1, sink_columns(query.sink, log.topic(query.sink.topic))
    spec = record_task_spec(query, layouts, running.ticks, count, setup, target=target, merges=merges)
    payloads = with_batch_time(log_adapter.read_key_groups(spark, spec, running.topics, start_option), query)
    sinks = (query.sink.topic, dead_letter_topic(query.sink.topic))
    sink = RecordSink(log_adapter.committer(manifest.run, running.folder, query), sinks, running.report)
    if is_stateful:
        operator = KeyGroupProcessor(spec, sink.finish())
        rows = payloads.groupBy("page").transformWithStateInPandas(operator, OUTPUT_SPARK_SCHEMA, "append", "None")
    else:
        rows = payloads.mapInArrow(run_stateless(spec, sink.finish()), OUTPUT_SPARK_SCHEMA)
    return CompiledQuery(rows, sink.write, "append")


def input_topics(query: Query) -> tuple[str, ...]:
    """The topics that a query reads."""
    return tuple(dict.fromkeys(source.topic for source in query.sources))


def consumed_topics(query: Query, manifest: Manifest) -> tuple[str, ...]:
    """The input topics with the ticks; in native mode only windows that are emitted once need ticks."""
    has_ticks = manifest.execution_mode == RECORD or (manifest.execution_mode == NATIVE and is_final(query))
    return (*manifest.topics, ticks_topic(manifest.run)) if has_ticks else manifest.topics
