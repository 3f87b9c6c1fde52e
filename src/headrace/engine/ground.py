"""A log as queries stand on it: how they read it, where results go, and how much is left to read.

Positions are what a source told Spark, out of Spark's own checkpoint: one place in the total order of the embedded log,
an offset for every partition on Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from headrace.contracts import Log
from headrace.engine.checkpoint import ticks_topic
from headrace.engine.native.join_source import read_both
from headrace.engine.native.joins import JoinWork
from headrace.engine.native.sink import Telling, ToldBySource
from headrace.engine.native.source import read_rows
from headrace.engine.native.work import Work as NativeWork
from headrace.engine.record.source import read_pages
from headrace.engine.record.work import Work
from headrace.engine.sink import EmbeddedOutlet, Outlet
from headrace.engine.trimming import trim_cuts, trim_ticks
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.log.kafka.log import KafkaLog

_BEGINNING = "earliest"
Position = Mapping[str, Any]


class Ground(Protocol):
    by_time: bool
    """Whether the rows of a batch are in order of their times, and not as they have arrived."""

    def pages(self, spark: SparkSession, work: Work, topics: Sequence[str], start: str) -> DataFrame:
        """Topics for the record way."""
        ...

    def rows(self, spark: SparkSession, work: NativeWork, start: str) -> DataFrame:
        """A topic for the native way."""
        ...

    def both(self, spark: SparkSession, join: JoinWork, start: str) -> DataFrame:
        """Two topics that are joined natively."""
        ...

    def telling(self, folder: Path, work: NativeWork | JoinWork) -> Telling: ...
    def outlet(self, run: str, folder: Path) -> Outlet:
        """Where the results of a query go; `folder` is its checkpoint's."""
        ...

    def end(self, topics: Sequence[str]) -> Position:
        """The position behind all that the topics hold now."""
        ...

    def starting(self, position: Position | None, whole: Sequence[str]) -> str:
        """A position as a source is told where to begin; None is the beginning. Of `whole` topics all is to be read."""
        ...

    def waiting(self, topics: Sequence[str], position: Position | None) -> int:
        """How many records lie behind a position; None is the beginning."""
        ...

    def trim(self, run: str, topics: Sequence[str], batch: int, position: Position) -> None:
        """Let go of what was kept for a replay of records that are gone; the batch is done, up to the position."""
        ...


def ground_of(log: Log, settings: Settings) -> Ground:
    """The ground under a log."""
    if isinstance(log, EmbeddedLog):
        return EmbeddedGround(log, settings)
    return KafkaGround(log, settings)  # type: ignore[arg-type]


class EmbeddedGround:
    by_time = False

    def __init__(self, log: EmbeddedLog, settings: Settings) -> None:
        self._log = log
        self._settings = settings

    def pages(self, spark: SparkSession, work: Work, topics: Sequence[str], start: str) -> DataFrame:
        return read_pages(spark, self._log.folder, work, topics, max_rows=self._settings.batch_rows, start=start)

    def rows(self, spark: SparkSession, work: NativeWork, start: str) -> DataFrame:
        rows = self._settings.batch_rows
        return read_rows(spark, self._log.folder, work.source.topic, work, max_rows=rows, start=start)

    def both(self, spark: SparkSession, join: JoinWork, start: str) -> DataFrame:
        return read_both(spark, self._log.folder, join, max_rows=self._settings.batch_rows, start=start)

    def telling(self, folder: Path, work: NativeWork | JoinWork) -> Telling:
        del folder, work
        return ToldBySource()

    def outlet(self, run: str, folder: Path) -> Outlet:
        del folder
        return EmbeddedOutlet(self._log, run)

    def end(self, topics: Sequence[str]) -> Position:
        return {"sequence": self._log.head(topics)}

    def starting(self, position: Position | None, whole: Sequence[str]) -> str:
        del whole  # ticks of a new query come behind any position
        return _BEGINNING if position is None else str(position["sequence"])

    def waiting(self, topics: Sequence[str], position: Position | None) -> int:
        return self._log.waiting(topics, position["sequence"] if position else 0)

    def trim(self, run: str, topics: Sequence[str], batch: int, position: Position) -> None:
        del batch
        if ticks_topic(run) in topics:
            trim_ticks(self._log, run, topics, position["sequence"])


class KafkaGround:
    """Its modules are imported when they are needed: Kafka's client is an extra."""

    by_time = True

    def __init__(self, log: KafkaLog, settings: Settings) -> None:
        self._log = log
        self._settings = settings

    def pages(self, spark: SparkSession, work: Work, topics: Sequence[str], start: str) -> DataFrame:
        from headrace.engine.record import kafka

        return kafka.read_pages(spark, self._log, work, topics, max_rows=self._settings.batch_rows, start=start)

    def rows(self, spark: SparkSession, work: NativeWork, start: str) -> DataFrame:
        from headrace.engine.native import kafka

        rows = self._settings.batch_rows
        return kafka.read_rows(spark, self._log, work.source.topic, work, max_rows=rows, start=start)

    def both(self, spark: SparkSession, join: JoinWork, start: str) -> DataFrame:
        from headrace.engine.native import join_kafka

        return join_kafka.read_both(spark, self._log, join, max_rows=self._settings.batch_rows, start=start)

    def telling(self, folder: Path, work: NativeWork | JoinWork) -> Telling:
        from headrace.engine.native import join_kafka, kafka

        if isinstance(work, JoinWork):
            return join_kafka.BothToldByDriver(folder, work.left)
        return kafka.ToldByDriver(folder, work)

    def outlet(self, run: str, folder: Path) -> Outlet:
        from headrace.engine.kafka_sink import KafkaOutlet

        return KafkaOutlet(self._log, run, folder)

    def end(self, topics: Sequence[str]) -> Position:
        return {topic: {str(p): bounds.end for p, bounds in self._log.bounds(topic).items()} for topic in topics}

    def starting(self, position: Position | None, whole: Sequence[str]) -> str:
        return _BEGINNING if position is None else json.dumps({**position, **{topic: {"0": 0} for topic in whole}})

    def waiting(self, topics: Sequence[str], position: Position | None) -> int:
        reached = position or {}
        return sum(
            bounds.end - max(reached.get(topic, {}).get(str(partition), 0), bounds.start)
            for topic in topics
            for partition, bounds in self._log.bounds(topic).items()
        )

    def trim(self, run: str, topics: Sequence[str], batch: int, position: Position) -> None:
        del topics, position  # a cut says what was read
        trim_cuts(self._log, run, batch)
