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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.contracts import Log, TopicSpec, dead_letter_spec, dead_letter_topic
from headrace.engine.batch.paging import pages_of
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.progress import Progress
from headrace.engine.record.operator import OUTPUT_SPARK, PageOperator, Report, Work, run_stateless, work_for
from headrace.engine.record.sink import PageSink
from headrace.engine.record.source import read_pages
from headrace.errors import HeadraceError, QueryFailed, TopicExists
from headrace.log.embedded import EmbeddedLog
from headrace.plan.nodes import Query
from headrace.settings import Settings


def ticks_topic(query: Query) -> str:
    """The topic of a query's ticks."""
    return f"__ticks.{query.id}"


class RunningQuery:
    """One query, from `start` to `stop`."""

    def __init__(self, query: Query, checkpoint: Checkpoint, on_batch: Callable[[RunningQuery], None]) -> None:
        self.query = query
        self.progress = Progress()
        self.topics = (*dict.fromkeys(source.topic for source in query.sources), ticks_topic(query))
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        self._error: BaseException | None = None
        self._spark: StreamingQuery | None = None

    @property
    def position(self) -> int:
        """How far the query's input is done: everything up to this place in the log's order is committed."""
        last = self._spark.lastProgress if self._spark is not None else None
        offset = last["sources"][0]["endOffset"] if last else None
        if offset is None:
            offset = self._checkpoint.position()
        offset = json.loads(offset) if isinstance(offset, str) else offset
        return offset["sequence"] if offset else 0

    @property
    def is_active(self) -> bool:
        return self._spark is not None and self._spark.isActive

    def failure(self) -> HeadraceError | None:
        """Why the query ended, if it did not just stop."""
        if self._error is not None and isinstance(self._error, HeadraceError):
            return self._error
        error = self._spark.exception() if self._spark is not None else None
        if error is None:
            return None
        return QueryFailed(
            f"query {self.query.id} ended: {_cause(error)}",
            where=str(self._checkpoint.folder),
            fix="the log file has the whole story; what was acknowledged is safe, start the query again",
        )

    def stop(self) -> None:
        """Let the batch under way end, and start no other."""
        if self._spark is not None:
            self._spark.stop()

    def run(self, writing: Any) -> None:
        """Begin; `writing` is Spark's writer of the stream."""
        self._spark = (
            writing.queryName(self.query.id)
            .outputMode("append")
            .option("checkpointLocation", str(self._checkpoint.spark))
            .start()
        )

    def report(self, batch: int, reports: list[Report]) -> None:
        """What a batch was like, once it is in the log."""
        del batch
        self.progress.add(reports)
        self._on_batch(self)

    def guarded(self, write: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        """Spark hands errors on as text; those of ours are kept."""

        def guarded(rows: Any, batch: int) -> None:
            try:
                write(rows, batch)
            except BaseException as error:
                self._error = error
                raise

        return guarded


_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Interrupt)|[\w.]*\.\w+): .*$", re.MULTILINE)


def _cause(error: BaseException) -> str:
    """What a person can use of a story that Spark tells through two languages: the innermost error of Python's."""
    text = str(error)
    found = _PYTHON_ERROR.search(text)
    lines = (line.strip() for line in text.splitlines())
    return found.group(0) if found else next((line for line in lines if line), type(error).__name__)


def start(
    spark: SparkSession,
    log: EmbeddedLog,
    query: Query,
    settings: Settings,
    folder: Path,
    on_batch: Callable[[RunningQuery], None] = lambda running: None,
) -> RunningQuery:
    """Start a query, or go on with it; its topics must be there."""
    pages = settings.pages if pages_of(query).are_several else 1
    running = RunningQuery(query, Checkpoint(folder), on_batch)
    manifest = Checkpoint(folder).opened(query, "record", pages, running.topics)
    sink = query.sink.topic
    ensure_topic(log, ticks_topic(query))
    ensure_topic(log, dead_letter_topic(sink), dead_letter_spec(log.topic(sink).spec))
    work = work_for(query, ticks_topic(query), manifest.pages)
    pages_read = read_pages(spark, log.folder, work, list(running.topics), max_rows=settings.batch_rows)
    results = _flow(pages_read, work, keeps=bool(manifest.state) or len(query.sources) > 1)
    out = PageSink(log, query.id, (sink, dead_letter_topic(sink)), running.report)
    running.run(results.writeStream.foreachBatch(running.guarded(out.write)))
    return running


def _flow(pages: DataFrame, work: Work, *, keeps: bool) -> DataFrame:
    """What keeps nothing, and reads one topic, whose order its tasks have, needs no operator with state."""
    if not keeps:
        return pages.mapInArrow(run_stateless(work), OUTPUT_SPARK)
    return pages.groupBy("page").transformWithStateInPandas(
        PageOperator(work), outputStructType=OUTPUT_SPARK, outputMode="append", timeMode="None"
    )


def ensure_topic(log: Log, name: str, spec: TopicSpec | None = None) -> None:
    with suppress(TopicExists):
        log.create_topic(name, spec or TopicSpec())
