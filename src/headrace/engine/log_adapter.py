"""Adapts a log for queries: how they read it, where they commit results, and how far they lag.

Positions are source offsets from Spark's own checkpoint: one position in the total order of the embedded log, an offset
for every partition on Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from headrace.contracts import Log
from headrace.engine.checkpoint import Checkpoint, ticks_topic, writer_name
from headrace.engine.io.embedded_source import Admission
from headrace.engine.io.replay_retention import trim_cuts, trim_ticks
from headrace.engine.io.sink import BatchCommitter, EmbeddedBatchCommitter
from headrace.engine.io.written_output import WrittenOutput, output_note, parse_notes
from headrace.engine.native.embedded_source import read_rows
from headrace.engine.native.sink import SourceStreamTime, StreamTimeProvider
from headrace.engine.native.task_spec import NativeTaskSpec
from headrace.engine.record.embedded_source import read_key_groups
from headrace.engine.record.task_spec import RecordTaskSpec
from headrace.log.embedded import EmbeddedLog
from headrace.plan.analysis.state_shape import state_shape
from headrace.plan.nodes import Query
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.log.kafka.log import KafkaLog

_BEGINNING = "earliest"
Position = Mapping[str, Any]


class LogAdapter(Protocol):
    by_time: bool
    """Whether the rows of a batch are ordered by their times, and not by arrival."""

    def read_key_groups(
        self, spark: SparkSession, spec: RecordTaskSpec, topics: Sequence[str], start: str
    ) -> DataFrame:
        """Reads topics for the record mode."""
        ...

    def read_rows(self, spark: SparkSession, spec: NativeTaskSpec, start: str) -> DataFrame:
        """Reads a topic for the native mode."""
        ...

    def stream_time(self, folder: Path, spec: NativeTaskSpec) -> StreamTimeProvider:
        """Tells the tasks of a native query the stream time."""
        ...

    def split_at(self, ends: Sequence[Position]) -> LogAdapter:
        """The same, whose source ends batches at these positions; on Kafka the checkpoint itself is changed."""
        ...

    def committer(self, run: str, folder: Path, query: Query) -> BatchCommitter:
        """Commits the results of a query; `folder` is its checkpoint."""
        ...

    def written(self) -> list[WrittenOutput]:
        """The last batch of each run of a query that is in the log."""
        ...

    def is_beyond_end(self, position: Position) -> bool:
        """Whether a position lies after everything that was ever in the log."""
        ...

    def forget_written(self, run: str) -> None:
        """Forget what a run has written: its output counts as anybody's rows."""
        ...

    def end_position(self, topics: Sequence[str]) -> Position:
        """The position after everything that the topics hold now."""
        ...

    def start_option(self, position: Position | None, whole: Sequence[str]) -> str:
        """A position as the source's start option; None is the beginning. `whole` topics are read completely."""
        ...

    def lag(self, topics: Sequence[str], position: Position | None) -> int:
        """The number of records after a position; None is the beginning."""
        ...

    def trim(self, run: str, topics: Sequence[str], batch: int, position: Position) -> None:
        """Trims ticks and cuts of records that are gone; the batch is done, up to the position."""
        ...


def log_adapter_for(log: Log, settings: Settings) -> LogAdapter:
    """Returns the adapter of a log."""
    if isinstance(log, EmbeddedLog):
        return EmbeddedLogAdapter(log, settings)
    return KafkaLogAdapter(log, settings)  # type: ignore[arg-type]


def _note_of(log: Log, folder: Path, query: Query) -> Callable[[int], str]:
    """What is committed with each batch of a query; `folder` is its checkpoint."""
    topic, checkpoint = log.topic(query.sink.topic), Checkpoint(folder)
    program, has_state = folder.parent.name, bool(state_shape(query))
    return lambda batch: output_note(query.id, topic, checkpoint.position(batch), program, has_state=has_state)


class EmbeddedLogAdapter:
    by_time = False

    def __init__(self, log: EmbeddedLog, settings: Settings, ends: Sequence[Position] = ()) -> None:
        self._log = log
        self._settings = settings
        self._admission = Admission(settings.query.max_batch_rows, tuple(end["sequence"] for end in ends))

    def split_at(self, ends: Sequence[Position]) -> EmbeddedLogAdapter:
        return EmbeddedLogAdapter(self._log, self._settings, ends)

    def read_key_groups(
        self, spark: SparkSession, spec: RecordTaskSpec, topics: Sequence[str], start: str
    ) -> DataFrame:
        return read_key_groups(spark, self._log.folder, spec, topics, admission=self._admission, start=start)

    def read_rows(self, spark: SparkSession, spec: NativeTaskSpec, start: str) -> DataFrame:
        return read_rows(spark, self._log.folder, spec.source.topic, spec, admission=self._admission, start=start)

    def stream_time(self, folder: Path, spec: NativeTaskSpec) -> StreamTimeProvider:
        del folder, spec
        return SourceStreamTime()

    def committer(self, run: str, folder: Path, query: Query) -> BatchCommitter:
        return EmbeddedBatchCommitter(self._log, run, _note_of(self._log, folder, query))

    def written(self) -> list[WrittenOutput]:
        return parse_notes(self._log.writer_notes())

    def is_beyond_end(self, position: Position) -> bool:
        return position["sequence"] > self._log.end()

    def forget_written(self, run: str) -> None:
        self._log.forget_note(writer_name(run))

    def end_position(self, topics: Sequence[str]) -> Position:
        return {"sequence": self._log.head(topics)}

    def start_option(self, position: Position | None, whole: Sequence[str]) -> str:
        del whole  # ticks of a new query follow any position
        known = ("sequence", "removed")
        return (
            _BEGINNING if position is None else json.dumps({name: position[name] for name in known if name in position})
        )

    def lag(self, topics: Sequence[str], position: Position | None) -> int:
        return self._log.lag(topics, position["sequence"] if position else 0)

    def trim(self, run: str, topics: Sequence[str], batch: int, position: Position) -> None:
        del batch
        if ticks_topic(run) in topics:
            trim_ticks(self._log, run, topics, position["sequence"])


class KafkaLogAdapter:
    """Imports its modules lazily: Kafka's client is an optional dependency."""

    by_time = True

    def __init__(self, log: KafkaLog, settings: Settings) -> None:
        self._log = log
        self._settings = settings

    def split_at(self, ends: Sequence[Position]) -> KafkaLogAdapter:
        del ends
        return self

    def read_key_groups(
        self, spark: SparkSession, spec: RecordTaskSpec, topics: Sequence[str], start: str
    ) -> DataFrame:
        from headrace.engine.record import kafka_source

        return kafka_source.read_key_groups(
            spark, self._log, spec, topics, max_rows=self._settings.query.max_batch_rows, start=start
        )

    def read_rows(self, spark: SparkSession, spec: NativeTaskSpec, start: str) -> DataFrame:
        from headrace.engine.native import kafka_source

        limit = self._settings.query.max_batch_rows
        return kafka_source.read_rows(spark, self._log, spec.source.topic, spec, max_rows=limit, start=start)

    def stream_time(self, folder: Path, spec: NativeTaskSpec) -> StreamTimeProvider:
        from headrace.engine.native.kafka_source import DriverStreamTime

        return DriverStreamTime(folder, spec)

    def committer(self, run: str, folder: Path, query: Query) -> BatchCommitter:
        from headrace.engine.io.kafka_sink import KafkaBatchCommitter

        return KafkaBatchCommitter(self._log, run, folder, _note_of(self._log, folder, query))

    def written(self) -> list[WrittenOutput]:
        return parse_notes(self._log.writer_notes())

    def is_beyond_end(self, position: Position) -> bool:
        del position
        return False  # Spark's source reports it

    def forget_written(self, run: str) -> None:
        self._log.forget_note(writer_name(run))

    def end_position(self, topics: Sequence[str]) -> Position:
        return {topic: {str(p): bounds.end for p, bounds in self._log.bounds(topic).items()} for topic in topics}

    def start_option(self, position: Position | None, whole: Sequence[str]) -> str:
        return _BEGINNING if position is None else json.dumps({**position, **{topic: {"0": 0} for topic in whole}})

    def lag(self, topics: Sequence[str], position: Position | None) -> int:
        offsets = position or {}
        return sum(
            bounds.end - max(offsets.get(topic, {}).get(str(partition), 0), bounds.start)
            for topic in topics
            for partition, bounds in self._log.bounds(topic).items()
        )

    def trim(self, run: str, topics: Sequence[str], batch: int, position: Position) -> None:
        del topics, position  # a cut contains the offsets
        trim_cuts(self._log, run, batch)
