"""Kafka as a Spark sink: exactly once, each batch in one transaction of the query's own writer.

Tasks stage their rows as for the embedded log, large ones in files next to the checkpoint, which exist for one batch.
The driver writes all of them, and the batch's cut, in the same transaction as the batch's number: so readers see a
batch as a whole, a repeat is detected, and a driver that was replaced cannot commit.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.contracts import Topic
from headrace.engine.checkpoint import Checkpoint, writer_name
from headrace.engine.io.kafka_source import CutJournal
from headrace.engine.io.sink import Sink, Staged
from headrace.errors import QueryFailed
from headrace.log.embedded.storage.extents import FILE, INLINE, EncodedExtent, ExtentDecoder, ExtentEncoder
from headrace.log.kafka.log import KafkaLog
from headrace.log.kafka.transactions import PreparedPart
from headrace.private_folder import make_private

_STAGED = "staged"


class KafkaBatchCommitter:
    """See `sink.BatchCommitter`; `folder` is the query's checkpoint. Commits what `note` tells of a batch with it."""

    def __init__(self, log: KafkaLog, query: str, folder: Path, note: Callable[[int], str] | None = None) -> None:
        self._log = log
        self._note = note
        self._topics: dict[str, Topic] = {}
        self._cuts = CutJournal(log, query, Checkpoint(folder).spark)
        self._writer = log.writer(writer_name(query))
        # Only now: the writer has fenced any earlier driver, so what that one staged is useless.
        self._folder = folder.resolve() / _STAGED
        shutil.rmtree(self._folder, ignore_errors=True)
        make_private(self._folder)
        self.staging = ExtentEncoder(self._folder, secrets.token_hex(6), int(log.settings.storage.inline_bytes))

    @property
    def last(self) -> int | None:
        return self._writer.last

    def topic(self, name: str) -> Topic:
        """The topic as tasks know it: rows are written as they were staged."""
        if name not in self._topics:
            self._topics[name] = self._log.topic(name)
        return self._topics[name]

    def commit(self, batch: int, staged: Sequence[Staged]) -> None:
        try:
            rows = StagedBatch(self._cuts.part(batch), staged, self._topics, self._folder)
            self._writer.append_parts(batch, rows, None if self._note is None else self._note(batch))
        finally:
            self._clear()

    def _clear(self) -> None:
        """Removes staged files, also those of retried tasks, but not those of another driver of the query."""
        for path in self._folder.glob(f"{self.staging.owner}-*"):
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class StagedBatch:
    """A batch for its writer. Files are mapped one after another: a batch may be larger than the memory."""

    cut: PreparedPart
    staged: Sequence[Staged]
    topics: Mapping[str, Topic]
    folder: Path

    def __iter__(self) -> Iterator[PreparedPart]:
        yield self.cut
        decoder = ExtentDecoder(self.folder, self.folder, keep=1)
        for name, partition, extent in self.staged:
            for rows in self._rows(decoder, extent):
                yield PreparedPart(self.topics[name], partition, rows)

    def _rows(self, decoder: ExtentDecoder, extent: EncodedExtent) -> list[pa.RecordBatch]:
        kind = INLINE if extent.file is None else FILE
        try:
            return decoder.decode(kind, extent.payload, extent.file, extent.checksum, str(self.folder))
        except FileNotFoundError as error:
            raise QueryFailed(
                "the rows that the tasks staged are missing",
                where=str(self.folder),
                fix="another program runs the same query: stop this one",
            ) from error


class KafkaSink(Sink):
    """Writes a query's batches to Kafka; pass `write` to `foreachBatch`."""

    def __init__(self, log: KafkaLog, query: str, topics: Sequence[str], folder: Path) -> None:
        super().__init__(KafkaBatchCommitter(log, query, folder), topics)
