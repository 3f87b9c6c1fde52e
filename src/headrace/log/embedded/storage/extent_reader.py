"""Reads extents: lists them in the database, releases it, then decodes.

A reader never holds a transaction while it reads files. An extent that merging or compaction replaces during a read
stays on disk for a while; if it is gone, the extents are listed again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.contracts import Batch, Bounds
from headrace.errors import BadOption, DamagedExtent, OffsetOutOfRange, RecordsLost, UnknownPartition
from headrace.log.embedded.storage.extents import GONE, LOST, ExtentDecoder, damaged_extent
from headrace.log.embedded.storage.store import Store
from headrace.log.embedded.storage.topic_catalog import TopicEntry
from headrace.log.stored_rows import conform_rows, integer_array, integer_values, read_schema
from headrace.log.topic_spec import unknown_topic

COLUMNS = (
    "id, partition, base_offset, last_offset, base_sequence, last_sequence, rows, kind, merged, checksum, file, payload"
)
_TRIES = 3
_logger = logging.getLogger(__name__)
_LISTED = 128  # extents listed in one query


class ExtentRow(NamedTuple):
    """A row of the extents table."""

    id: int
    partition: int
    base_offset: int
    last_offset: int
    base_sequence: int
    last_sequence: int
    rows: int
    kind: str
    merged: int
    checksum: int
    file: str | None
    payload: bytes | None


class ExtentReader:
    """Rows by offset, by time and by sequence."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: set[int] = set()
        self._decoder = ExtentDecoder(store.folder / "extents", store.folder / "archive")

    def bounds(self, entry: TopicEntry) -> dict[int, Bounds]:
        rows = self._store.query(
            "SELECT partition, start_offset, end_offset FROM partitions WHERE topic = ? ORDER BY partition", entry.id
        )
        if not rows:
            raise unknown_topic(entry.topic.name)  # deleted meanwhile
        return {partition: Bounds(start, end) for partition, start, end in rows}

    def end(self, topic_id: int, partition: int) -> int | None:
        """A partition's end offset (last offset + 1); None if its topic was deleted."""
        rows = self._store.query(
            "SELECT end_offset FROM partitions WHERE topic = ? AND partition = ?", topic_id, partition
        )
        return rows[0][0] if rows else None

    def partition_bounds(self, entry: TopicEntry, partition: int) -> Bounds:
        rows = self._store.query(
            "SELECT start_offset, end_offset FROM partitions WHERE topic = ? AND partition = ?", entry.id, partition
        )
        if not rows and 0 <= partition < entry.topic.partitions:
            raise unknown_topic(entry.topic.name)
        if not rows:
            raise UnknownPartition(
                f'topic "{entry.topic.name}" has no partition {partition}',
                fix=f"its partitions are 0 to {entry.topic.partitions - 1}",
            )
        return Bounds(*rows[0])

    def check_offset(self, entry: TopicEntry, partition: int, offset: int) -> Bounds:
        """The partition's bounds; raises if the offset is outside of them."""
        start, end = bounds = self.partition_bounds(entry, partition)
        if not start <= offset <= end:
            raise OffsetOutOfRange(
                f"offset {offset} does not exist: the partition has offsets {start} to {end}",
                where=f"{entry.topic.name}/{partition}",
                fix=f"use {start} (earliest) to {end} (latest)",
            )
        return bounds

    def read(self, entry: TopicEntry, partition: int, offset: int, max_records: int) -> Batch:
        """Rows from an offset."""
        if max_records <= 0:
            raise BadOption(f"max_records cannot be {max_records}", fix="request at least one record")
        start, end = self.check_offset(entry, partition, offset)
        parts: list[pa.RecordBatch] = []
        left = max_records
        for piece in self._pieces(entry, partition, "offset", offset - 1, end - 1, start):
            parts.append(piece.slice(0, left))
            left -= parts[-1].num_rows
            if left <= 0:
                break
        if not parts or parts[0].column("$offset")[0].as_py() > offset:
            self.check_offset(entry, partition, offset)  # compaction leaves gaps, or retention removed it meanwhile
        # Compaction may have removed the last rows: then the position moves past them.
        position = parts[-1].column("$offset")[-1].as_py() + 1 if left <= 0 else end
        return Batch(entry.topic.name, partition, _join(parts, read_schema(entry.topic.schema)), position)

    def scan(self, entry: TopicEntry, partition: int, after: int, upto: int) -> Iterator[Batch]:
        """Rows of a partition with `after < $sequence <= upto`."""
        start, _ = self.partition_bounds(entry, partition)
        for piece in self._pieces(entry, partition, "sequence", after, upto, start):
            yield Batch(entry.topic.name, partition, piece, piece.column("$offset")[-1].as_py() + 1)

    def _pieces(
        self, entry: TopicEntry, partition: int, by: str, after: int, upto: int, start: int
    ) -> Iterator[pa.RecordBatch]:
        """Rows with `after < $by <= upto` from offset `start`, extent by extent."""
        tries = 0
        while after < upto:
            extents = self._list(entry.id, partition, by, after, upto)
            try:
                for extent in extents:
                    for rows in self._rows(entry, extent):
                        piece = _between(rows, by, after, upto, start)
                        if piece.num_rows:
                            yield piece
                    after, tries = getattr(extent, f"last_{by}"), 0
            except FileNotFoundError as error:
                tries += 1
                if tries == _TRIES:
                    raise _missing(error, entry, partition) from error
                continue
            if len(extents) < _LISTED:
                return

    def _list(self, topic_id: int, partition: int, by: str, after: int, upto: int) -> list[ExtentRow]:
        rows = self._store.query(
            f"SELECT {COLUMNS} FROM extents WHERE topic = ? AND partition = ? AND last_{by} > ? AND base_{by} <= ? "
            f"AND replaced_at IS NULL ORDER BY last_{by} LIMIT {_LISTED}",
            topic_id,
            partition,
            after,
            upto,
        )
        return [ExtentRow(*row) for row in rows]

    def _rows(self, entry: TopicEntry, extent: ExtentRow) -> Iterator[pa.RecordBatch]:
        """An extent's rows as readers see them: with the current schema, offsets and sequences."""
        schema = read_schema(entry.topic.schema)
        for batch, places in self.placed(extent, entry.topic.name):
            columns = [*conform_rows(batch, entry.topic.schema), *places]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def placed(self, extent: ExtentRow, topic: str) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
        """An extent's rows as stored, with their offsets and sequences, which are stored or consecutive."""
        offset, sequence = extent.base_offset, extent.base_sequence
        for batch in self.stored(extent, topic):
            count = batch.num_rows
            if extent.merged and not {"$offset", "$sequence"} <= set(batch.schema.names):
                raise damaged_extent("an extent lacks its rows' offsets", self._where(extent, topic))
            if extent.merged:
                yield batch, [batch.column("$offset"), batch.column("$sequence")]
            else:
                yield batch, [_count_up(offset, count), _count_up(sequence, count)]
            offset, sequence = offset + count, sequence + count

    def stored(self, extent: ExtentRow, topic: str) -> list[pa.RecordBatch]:
        """An extent's rows as stored; verifies the checksum."""
        where = self._where(extent, topic)
        if extent.kind in GONE:
            return self._lost(extent, where)
        batches = self._decoder.decode(extent.kind, extent.payload, extent.file, extent.checksum, where)
        if (row_count := sum(batch.num_rows for batch in batches)) != extent.rows:
            raise damaged_extent(f"an extent has {row_count} rows, not {extent.rows}", where)
        return batches

    def _lost(self, extent: ExtentRow, where: str) -> list[pa.RecordBatch]:
        if extent.kind == LOST:
            raise RecordsLost(
                f"{extent.rows} rows were lost to damage",
                where=where,
                fix="restore from a backup, or let readers go on: `headrace storage repair --skip-lost`",
            )
        if extent.id not in self._told:  # once per process
            self._told.add(extent.id)
            _logger.warning("%s rows were lost to damage, and are skipped: %s", extent.rows, where)
        return []

    def _where(self, extent: ExtentRow, topic: str) -> str:
        return f"{topic}/{extent.partition}, offsets {extent.base_offset} to {extent.last_offset}"

    def last_sequence_below(self, entry: TopicEntry, partition: int, offset: int) -> int:
        """The sequence of the last row below an offset; 0 if there is none."""
        rows = self._store.query(
            f"SELECT {COLUMNS} FROM extents WHERE topic = ? AND partition = ? AND base_offset < ? "
            "AND replaced_at IS NULL ORDER BY last_offset DESC LIMIT 2",
            entry.id,
            partition,
            offset,
        )
        # The extent around the offset may begin with a gap; the one before it always has rows below the offset.
        for row in rows:
            extent, sequence = ExtentRow(*row), 0
            if extent.kind in GONE and extent.last_offset < offset:
                return extent.last_sequence
            for batch in () if extent.kind in GONE else self._rows(entry, extent):
                below = int(np.searchsorted(integer_values(batch.column("$offset")), offset))
                sequence = batch.column("$sequence")[below - 1].as_py() if below else sequence
            if sequence:
                return sequence
        return 0

    def offset_at(self, entry: TopicEntry, partition: int, timestamp: int) -> int:
        """The first offset at or after a time."""
        if not -(1 << 63) <= timestamp < 1 << 63:
            raise BadOption(f"{timestamp} is not a valid time", fix="use milliseconds since 1970")
        bounds = self.partition_bounds(entry, partition)
        rows = self._store.query(
            f"SELECT {COLUMNS} FROM extents WHERE topic = ? AND partition = ? AND max_time >= ? "
            f"AND replaced_at IS NULL AND kind NOT IN {GONE} ORDER BY last_offset LIMIT 2",
            entry.id,
            partition,
            timestamp,
        )
        for row in rows:
            for batch in self._rows(entry, ExtentRow(*row)):
                late = integer_values(batch.column("$timestamp")) >= timestamp
                late &= integer_values(batch.column("$offset")) >= bounds.start
                if late.any():
                    return batch.column("$offset")[int(late.argmax())].as_py()
        return bounds.end


def _between(rows: pa.RecordBatch, by: str, after: int, upto: int, start: int) -> pa.RecordBatch:
    first, last = np.searchsorted(integer_values(rows.column(f"${by}")), [after + 1, upto + 1])
    first = max(int(first), int(np.searchsorted(integer_values(rows.column("$offset")), start)))
    return rows.slice(first, max(int(last) - first, 0))


def _count_up(start: int, count: int) -> pa.Array:
    return integer_array(np.arange(start, start + count, dtype=np.int64))


def _join(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    return pa.concat_batches(parts)


def _missing(error: FileNotFoundError, entry: TopicEntry, partition: int) -> DamagedExtent:
    return damaged_extent(f"a file of the log is missing: {error.filename or error}", f"{entry.topic.name}/{partition}")
