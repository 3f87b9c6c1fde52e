"""A query's results on their way into a log: exactly once, one Spark action per batch, however many topics.

Tasks encode their rows and *stage* them: small ones within what Spark collects, large ones in files. The driver commits
all of a batch in one transaction under (query, batch number), through the *outlet* that the log has. A batch that is
there already is not written again, but it is still computed: a stateful plan must bring its state to the version that
Spark is about to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.clock import SystemClock
from headrace.contracts import Topic
from headrace.engine.columns import from_spark, gathered
from headrace.faultpoints import reach
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.extents import Extent, Writer
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
Staged = tuple[str, int, Extent]
"""Rows of a topic's partition, ready to be committed."""


class Outlet(Protocol):
    """Where one query's batches are committed. Opening it fences whoever had it before."""

    staging: Writer
    """What tasks stage their rows with."""

    @property
    def last(self) -> int | None:
        """The number of the last batch that is there."""
        ...

    def topic(self, name: str) -> Topic: ...
    def commit(self, batch: int, staged: Sequence[Staged]) -> None:
        """All of a batch, in one transaction, in this order; nothing if it is there already."""
        ...


class EmbeddedOutlet:
    def __init__(self, log: EmbeddedLog, query: str) -> None:
        self._writer = log.writer(writer_name(query))
        self.topic = log.topic
        # Files are the driver's: they die with it.
        self.staging = Writer(log.folder.resolve() / "extents", log.owner, int(log.settings.inline_bytes))

    @property
    def last(self) -> int | None:
        return self._writer.last

    def commit(self, batch: int, staged: Sequence[Staged]) -> None:
        self._writer.append_staged(batch, staged)


class Sink:
    """Writes a query's batches; pass `write` to `foreachBatch`."""

    def __init__(self, outlet: Outlet, topics: Sequence[str], unpack: Unpack = from_spark) -> None:
        self._outlet = outlet
        self._topics = [outlet.topic(name) for name in topics]
        self._unpack = unpack

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once."""
        if self._outlet.last is not None and batch <= self._outlet.last:
            rows.write.format("noop").mode("overwrite").save()
            return
        self.commit(batch, rows.mapInArrow(self.stage(), STAGED).collect())

    def commit(self, batch: int, staged: Iterable[tuple[Any, ...]]) -> None:
        """Commit what tasks have staged."""
        reach("sink.staged")
        self._outlet.commit(batch, [(topic, partition, Extent(*fields)) for topic, partition, *fields in staged])
        reach("sink.committed")

    def stage(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """What tasks do with a batch's rows."""
        writer, topics, unpack = self._outlet.staging, list(self._topics), self._unpack

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in gathered(batches):
                yield from staged_rows(unpack(batch, topics), writer)

        return stage


class EmbeddedSink(Sink):
    """The same for the embedded log."""

    def __init__(self, log: EmbeddedLog, query: str, topics: Sequence[str]) -> None:
        super().__init__(EmbeddedOutlet(log, query), topics)


def writer_name(query: str) -> str:
    """Of the writer of a query's batches: who opens it fences who had it before."""
    return f"query.{query}"


def staged_rows(parts: Rows, writer: Writer) -> Iterator[pa.RecordBatch]:
    """In a task: rows to extents that the driver can commit."""
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
