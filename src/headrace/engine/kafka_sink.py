"""Kafka as a Spark sink: exactly once, each batch in one transaction of the query's own writer.

Tasks stage their rows as for the embedded log, large ones in files beside the checkpoint, which live for one batch. The
driver writes all of them, and how the batch was cut, in the same transaction as the batch's number: so readers see a
batch as a whole, a repeat is known, and a driver that was replaced can commit nothing.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.contracts import Topic
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.kafka_source import Cuts
from headrace.engine.sink import Sink, Staged, writer_name
from headrace.errors import QueryFailed
from headrace.log.embedded.extents import FILE, INLINE, Decoder, Extent, Writer
from headrace.log.kafka.log import KafkaLog
from headrace.log.kafka.transactions import Part

_STAGED = "staged"


class KafkaOutlet:
    """See `sink.Outlet`; `folder` is the query's checkpoint."""

    def __init__(self, log: KafkaLog, query: str, folder: Path) -> None:
        self._log = log
        self._topics: dict[str, Topic] = {}
        self._cuts = Cuts(log, query, Checkpoint(folder).spark)
        self._writer = log.writer(writer_name(query))
        # Only now: who was at it before can write no more, so what was staged is of no use to anybody.
        self._folder = folder.resolve() / _STAGED
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self.staging = Writer(self._folder, secrets.token_hex(6), int(log.settings.inline_bytes))

    @property
    def last(self) -> int | None:
        return self._writer.last

    def topic(self, name: str) -> Topic:
        """As tasks know it: rows are written as they were staged."""
        if name not in self._topics:
            self._topics[name] = self._log.topic(name)
        return self._topics[name]

    def commit(self, batch: int, staged: Sequence[Staged]) -> None:
        try:
            self._writer.append_parts(batch, Load(self._cuts.part(batch), staged, self._topics, self._folder))
        finally:
            self._clear()

    def _clear(self) -> None:
        """Also what tasks that were tried again have left; not what another driver of the query has staged."""
        for path in self._folder.glob(f"{self.staging.owner}-*"):
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Load:
    """A batch as its writer takes it. Files are mapped one after another: a batch may be larger than the memory."""

    cut: Part
    staged: Sequence[Staged]
    topics: Mapping[str, Topic]
    folder: Path

    def __iter__(self) -> Iterator[Part]:
        yield self.cut
        decoder = Decoder(self.folder, self.folder, keep=1)
        for name, partition, extent in self.staged:
            for rows in self._rows(decoder, extent):
                yield Part(self.topics[name], partition, rows)

    def _rows(self, decoder: Decoder, extent: Extent) -> list[pa.RecordBatch]:
        kind = INLINE if extent.file is None else FILE
        try:
            return decoder.decode(kind, extent.payload, extent.file, extent.checksum, str(self.folder))
        except FileNotFoundError as error:
            raise QueryFailed(
                "what tasks have staged is gone",
                where=str(self.folder),
                fix="another program runs this query, and has begun anew: let it go on, and stop this one",
            ) from error


class KafkaSink(Sink):
    """Writes a query's batches to Kafka; pass `write` to `foreachBatch`."""

    def __init__(self, log: KafkaLog, query: str, topics: Sequence[str], folder: Path) -> None:
        super().__init__(KafkaOutlet(log, query, folder), topics)
