"""Writes a query's results to a log: exactly once, one Spark action per batch, however many topics.

Tasks encode their rows and *stage* them: small ones within what Spark collects, large ones in files. The driver commits
all of a batch in one transaction under (query, batch number), through the log's `BatchCommitter`. A batch that is
already in the log is not written again, but it is still computed: a stateful plan must bring its state to the version
that Spark is about to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.clock import SystemClock
from headrace.contracts import Topic
from headrace.engine.checkpoint import writer_name
from headrace.engine.io.columns import coalesce_batches, from_spark
from headrace.faultpoints import reach
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.storage.extents import EncodedExtent, ExtentEncoder
from headrace.log.stored_rows import prepare_rows, split_by_partition

STAGED = (
    "topic string, partition int, rows bigint, min_time bigint, max_time bigint, bytes bigint, "
    "checksum bigint, payload binary, file string"
)
STAGED_SCHEMA = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32())]
    + [(name, pa.int64()) for name in ("rows", "min_time", "max_time", "bytes", "checksum")]
    + [("payload", pa.binary()), ("file", pa.string())]
)


TopicRows = Iterable[tuple[Topic, pa.RecordBatch]]
Unpack = Callable[[pa.RecordBatch, Sequence[Topic]], TopicRows]
"""Splits a batch of a query's results by topic."""
Staged = tuple[str, int, EncodedExtent]
"""Rows of a topic's partition, ready to be committed."""


class BatchCommitter(Protocol):
    """Commits one query's batches. Opening it fences any earlier one."""

    staging: ExtentEncoder
    """The encoder with which tasks stage their rows."""

    @property
    def last(self) -> int | None:
        """The number of the last batch in the log."""
        ...

    def topic(self, name: str) -> Topic: ...
    def commit(self, batch: int, staged: Sequence[Staged]) -> None:
        """Commits a batch in one transaction, in this order; does nothing if it is in the log already."""
        ...


class EmbeddedBatchCommitter:
    """Commits with each batch what `note` tells of it."""

    def __init__(self, log: EmbeddedLog, run: str, note: Callable[[int], str] | None = None) -> None:
        self._writer = log.writer(writer_name(run))
        self._note = note
        self.topic = log.topic
        # Files belong to the driver: they are removed when it ends.
        self.staging = ExtentEncoder(
            log.folder.resolve() / "extents", log.owner, int(log.settings.storage.inline_bytes)
        )

    @property
    def last(self) -> int | None:
        return self._writer.last

    def commit(self, batch: int, staged: Sequence[Staged]) -> None:
        self._writer.append_staged(batch, staged, None if self._note is None else self._note(batch))


class Sink:
    """Writes a query's batches; pass `write` to `foreachBatch`."""

    def __init__(self, committer: BatchCommitter, topics: Sequence[str], unpack: Unpack = from_spark) -> None:
        self._committer = committer
        self._topics = [committer.topic(name) for name in topics]
        self._unpack = unpack

    def write(self, rows: DataFrame, batch: int) -> None:
        """Writes a batch, once."""
        if self._committer.last is not None and batch <= self._committer.last:
            rows.write.format("noop").mode("overwrite").save()
            return
        self.commit(batch, rows.mapInArrow(self.stage(), STAGED).collect())

    def commit(self, batch: int, staged: Iterable[tuple[Any, ...]]) -> None:
        """Commits what tasks have staged."""
        reach("sink.staged")
        self._committer.commit(
            batch, [(topic, partition, EncodedExtent(*fields)) for topic, partition, *fields in staged]
        )
        reach("sink.committed")

    def stage(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Returns the function with which tasks stage a batch's rows."""
        writer, topics, unpack = self._committer.staging, list(self._topics), self._unpack

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in coalesce_batches(batches):
                yield from staged_rows(unpack(batch, topics), writer)

        return stage


class EmbeddedSink(Sink):
    """Writes a query's batches to the embedded log."""

    def __init__(self, log: EmbeddedLog, query: str, topics: Sequence[str]) -> None:
        super().__init__(EmbeddedBatchCommitter(log, query), topics)


def staged_rows(parts: TopicRows, writer: ExtentEncoder) -> Iterator[pa.RecordBatch]:
    """In a task: encodes rows as extents that the driver can commit."""
    if staged := staged_extents(parts, writer):
        rows = [dict(zip(STAGED_SCHEMA.names, row, strict=True)) for row in staged]
        yield pa.RecordBatch.from_pylist(rows, STAGED_SCHEMA)


def staged_extents(parts: TopicRows, writer: ExtentEncoder) -> list[tuple[Any, ...]]:
    """The staged extents as plain values: topic, partition, and an extent's fields."""
    now = SystemClock().now()
    return [
        (topic.name, partition, *writer.stage(piece))
        for topic, rows in parts
        for partition, piece in split_by_partition(prepare_rows(rows, topic, now), topic, None)
    ]
