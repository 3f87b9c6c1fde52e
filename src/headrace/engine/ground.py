"""A log as queries stand on it: where pages are read, where results go, and how much is left to read.

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
from headrace.engine.record.sink import PageSink
from headrace.engine.record.source import read_pages
from headrace.engine.record.work import Work
from headrace.engine.reports import OnReport
from headrace.engine.trimming import trim_cuts, trim_ticks
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.log.kafka.log import KafkaLog

_BEGINNING = "earliest"
Position = Mapping[str, Any]


class Ground(Protocol):
    always_shuffled: bool
    """Whether what a task writes must hang on its rows alone, and not on how a batch was cut into tasks."""

    def pages(self, spark: SparkSession, work: Work, topics: Sequence[str], start: str) -> DataFrame: ...
    def sink(self, query: str, topics: Sequence[str], checkpoint: Path, on_report: OnReport) -> Any:
        """Has `finish`, what tasks do with their results, and `write`, for each batch of what that gives."""
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
    always_shuffled = False  # the driver writes a batch in one piece

    def __init__(self, log: EmbeddedLog, settings: Settings) -> None:
        self._log = log
        self._settings = settings

    def pages(self, spark: SparkSession, work: Work, topics: Sequence[str], start: str) -> DataFrame:
        return read_pages(spark, self._log.folder, work, topics, max_rows=self._settings.batch_rows, start=start)

    def sink(self, query: str, topics: Sequence[str], checkpoint: Path, on_report: OnReport) -> PageSink:
        del checkpoint
        return PageSink(self._log, query, topics, on_report)

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
    always_shuffled = True  # each task is a producer of its own

    def __init__(self, log: KafkaLog, settings: Settings) -> None:
        self._log = log
        self._settings = settings

    def pages(self, spark: SparkSession, work: Work, topics: Sequence[str], start: str) -> DataFrame:
        from headrace.engine.record import kafka

        return kafka.read_pages(spark, self._log, work, topics, max_rows=self._settings.batch_rows, start=start)

    def sink(self, query: str, topics: Sequence[str], checkpoint: Path, on_report: OnReport) -> Any:
        from headrace.engine.kafka_source import Cuts
        from headrace.engine.record.kafka import LaneSink

        return LaneSink(self._log, query, topics, Cuts(self._log, query, checkpoint), on_report)

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
