"""The embedded log as a Spark sink: exactly once, one Spark action per batch, however many topics.

Tasks encode their rows and write large ones to files; the driver commits all of a batch in one transaction under
(query, batch number). A batch that is there already is not written again, but it is still computed: a stateful plan
must bring its state to the version that Spark is about to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.clock import SystemClock
from headrace.contracts import Topic
from headrace.engine.columns import from_spark
from headrace.faultpoints import reach
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.extents import Extent, Writer
from headrace.log.rows import prepare, split

_STAGED = (
    "topic string, partition int, rows bigint, min_time bigint, max_time bigint, bytes bigint, "
    "checksum bigint, payload binary, file string"
)
_STAGED_SCHEMA = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32())]
    + [(name, pa.int64()) for name in ("rows", "min_time", "max_time", "bytes", "checksum")]
    + [("payload", pa.binary()), ("file", pa.string())]
)


class EmbeddedSink:
    """Writes a query's batches; pass `write` to `foreachBatch`."""

    def __init__(self, log: EmbeddedLog, query: str, topics: Sequence[str]) -> None:
        self._log = log
        self._writer = log.writer(f"query.{query}")
        self._topics = [log.topic(name) for name in topics]

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once."""
        if self._writer.last is not None and batch <= self._writer.last:
            rows.write.format("noop").mode("overwrite").save()
            return
        staged = rows.mapInArrow(self._stage(), _STAGED).collect()
        reach("sink.staged")
        self._writer.append_staged(batch, [(topic, partition, Extent(*fields)) for topic, partition, *fields in staged])
        reach("sink.committed")

    def _stage(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        folder, owner, topics = self._log.folder.resolve(), self._log.owner, list(self._topics)
        inline = int(self._log.settings.inline_bytes)

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return stage_rows(batches, folder, owner, inline, topics)

        return stage


def stage_rows(
    batches: Iterator[pa.RecordBatch], folder: Path, owner: str, inline: int, topics: Sequence[Topic]
) -> Iterator[pa.RecordBatch]:
    """In a task: rows to extents that the driver can commit. Files are the driver's: they die with it."""
    writer = Writer(folder / "extents", owner, inline)
    now = SystemClock().now()
    for batch in batches:
        staged = [
            (topic.name, partition, *writer.stage(piece))
            for topic, rows in from_spark(batch, topics)
            for partition, piece in split(prepare(rows, topic, now), topic, None)
        ]
        if staged:
            yield pa.RecordBatch.from_pylist(
                [dict(zip(_STAGED_SCHEMA.names, row, strict=True)) for row in staged], _STAGED_SCHEMA
            )
