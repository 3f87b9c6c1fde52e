"""The embedded log as a Spark sink: exactly once, one Spark action per batch, however many topics.

Tasks encode their rows and write large ones to files; the driver commits all of a batch in one transaction under
(query, batch number). A batch that is there already is not written again, but it is still computed: a stateful plan
must bring its state to the version that Spark is about to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.clock import SystemClock
from headrace.contracts import Topic
from headrace.engine.columns import from_spark
from headrace.faultpoints import reach
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.extents import Extent, Writer
from headrace.log.embedded.writers import EmbeddedWriter
from headrace.log.rows import prepare, split

STAGED = (
    "topic string, partition int, rows bigint, min_time bigint, max_time bigint, bytes bigint, "
    "checksum bigint, payload binary, file string"
)
STAGED_SCHEMA = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32())]
    + [(name, pa.int64()) for name in ("rows", "min_time", "max_time", "bytes", "checksum")]
    + [("payload", pa.binary()), ("file", pa.string())]
)


Rows = Iterable[tuple[Topic, pa.RecordBatch]]
Unpack = Callable[[pa.RecordBatch, Sequence[Topic]], Rows]
"""What a batch of a query's results holds for which topic."""


class EmbeddedSink:
    """Writes a query's batches; pass `write` to `foreachBatch`."""

    def __init__(self, log: EmbeddedLog, query: str, topics: Sequence[str], unpack: Unpack = from_spark) -> None:
        self._log = log
        self._writer = writer_of(log, query)
        self._topics = [log.topic(name) for name in topics]
        self._unpack = unpack

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once."""
        if self._writer.last is not None and batch <= self._writer.last:
            rows.write.format("noop").mode("overwrite").save()
            return
        self.commit(batch, rows.mapInArrow(self.stage(), STAGED).collect())

    def commit(self, batch: int, staged: Iterable[tuple[Any, ...]]) -> None:
        """Commit what tasks have staged."""
        reach("sink.staged")
        self._writer.append_staged(batch, [(topic, partition, Extent(*fields)) for topic, partition, *fields in staged])
        reach("sink.committed")

    def stage(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """What tasks do with a batch's rows."""
        folder, owner, topics = self._log.folder.resolve(), self._log.owner, list(self._topics)
        inline, unpack = int(self._log.settings.inline_bytes), self._unpack

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            writer = Writer(folder / "extents", owner, inline)
            for batch in batches:
                yield from staged_rows(unpack(batch, topics), writer)

        return stage


def writer_of(log: EmbeddedLog, query: str) -> EmbeddedWriter:
    """Under which a query's batches are written; who had it before can write no more."""
    return log.writer(f"query.{query}")


def staged_rows(parts: Rows, writer: Writer) -> Iterator[pa.RecordBatch]:
    """In a task: rows to extents that the driver can commit. Files are the driver's: they die with it."""
    if staged := staged_extents(parts, writer):
        rows = [dict(zip(STAGED_SCHEMA.names, row, strict=True)) for row in staged]
        yield pa.RecordBatch.from_pylist(rows, STAGED_SCHEMA)


def staged_extents(parts: Rows, writer: Writer) -> list[tuple[Any, ...]]:
    """The same as plain values: topic, partition, and an extent's fields."""
    now = SystemClock().now()
    return [
        (topic.name, partition, *writer.stage(piece))
        for topic, rows in parts
        for partition, piece in split(prepare(rows, topic, now), topic, None)
    ]
