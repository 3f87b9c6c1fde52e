"""Replaces extents by others with the same rows, or fewer: the base of merging, compaction and archiving.

New extents are written first; one transaction then swaps them in, if the old ones still exist. Two processes may
rewrite the same extents: the second swap is refused and its files are removed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.contracts import SYSTEM_COLUMNS
from headrace.faultpoints import reach
from headrace.log.embedded.commit.placement import insert_extent
from headrace.log.embedded.maintenance.maintained_log import MaintainedLog
from headrace.log.embedded.storage.extent_reader import COLUMNS, ExtentRow
from headrace.log.embedded.storage.extents import ARCHIVE, FILE, INLINE, write_archive
from headrace.log.embedded.storage.extents import EncodedExtent as Encoded
from headrace.log.embedded.storage.store import remove_unnamed
from headrace.log.embedded.storage.topic_catalog import TopicEntry
from headrace.log.stored_rows import conform_rows

IMPLICIT, EXPLICIT, COMPACTED = 0, 1, 2  # the `merged` column: whether offsets are consecutive or stored, and why


@dataclass(frozen=True)
class LiveExtent:
    """An extent with the facts that the policies need."""

    extent: ExtentRow
    bytes: int
    max_time: int
    created_at: int


def live_extents(log: MaintainedLog, entry: TopicEntry, partition: int) -> list[LiveExtent]:
    """The live extents of a partition in order, without their rows."""
    columns = COLUMNS.replace("payload", "NULL")
    rows = log.store.query(
        f"SELECT {columns}, bytes, max_time, created_at FROM extents WHERE topic = ? AND partition = ? "
        "AND replaced_at IS NULL ORDER BY last_offset",
        entry.id,
        partition,
    )
    return [LiveExtent(ExtentRow(*row[:-3]), *row[-3:]) for row in rows]


def rows_of(log: MaintainedLog, entry: TopicEntry, extents: Sequence[LiveExtent]) -> pa.Table:
    """All rows of some extents with the current columns, `$offset`, `$sequence` and compaction's own columns."""
    return pa.Table.from_batches([batch for item in extents for batch in _stored(log, entry, item.extent)])


def _stored(log: MaintainedLog, entry: TopicEntry, extent: ExtentRow) -> list[pa.RecordBatch]:
    if extent.kind == INLINE:
        ((payload,),) = log.store.query("SELECT payload FROM extents WHERE id = ?", extent.id)
        extent = extent._replace(payload=payload)
    batches: list[pa.RecordBatch] = []
    names = [*entry.topic.schema.names, *SYSTEM_COLUMNS, "$tombstoned_at"]
    for batch, places in log.reader.placed(extent, entry.topic.name):
        noted = "$tombstoned_at" in batch.schema.names
        since = batch.column("$tombstoned_at") if noted else pa.nulls(batch.num_rows, pa.int64())
        batches.append(pa.RecordBatch.from_arrays([*conform_rows(batch, entry.topic.schema), *places, since], names))
    return batches


def replace(
    log: MaintainedLog,
    entry: TopicEntry,
    partition: int,
    old: Sequence[LiveExtent],
    rows: pa.Table,
    *,
    archive: bool,
    why: int,
) -> bool:
    """Swap `old` for one extent with `rows` (none, if there are no rows); False if another process was faster."""
    merged = _counting(rows, why, old[0].extent)
    stored = _without_redundant_columns(rows, merged)
    new = _encode(log, stored, archive) if rows.num_rows else None
    reach("rewrite.encoded")
    ranges = _ranges(old)
    now = log.clock.now()

    def change(db: sqlite3.Connection) -> bool:
        # The rows were read with the topic's columns at that time; columns added since would be lost.
        if db.execute("SELECT version FROM topics WHERE id = ?", (entry.id,)).fetchone() != (entry.version,):
            return False
        if not _retire(db, [item.extent.id for item in old], now):
            return False
        freed = sum(item.bytes for item in old if item.extent.kind != ARCHIVE)
        gained = 0 if new is None or archive else new.bytes
        db.execute(
            "UPDATE partitions SET bytes = bytes - ? WHERE topic = ? AND partition = ?",
            (freed - gained, entry.id, partition),
        )
        if new is not None:
            kind = ARCHIVE if archive else FILE if new.file else INLINE
            created_at = max(item.created_at for item in old)
            insert_extent(db, (entry.id, partition), ranges, new, kind, merged, created_at)
        return True

    swapped = False
    try:
        swapped = log.committer.change(change)
        reach("rewrite.swapped")
    finally:
        if not swapped and new is not None and new.file:
            remove_unnamed(log.store, new.file, "archive" if archive else "extents")
    return swapped


def _counting(rows: pa.Table, why: int, first: ExtentRow) -> int:
    """Offsets and sequences are not stored where both are consecutive from the start of the extent."""
    if why == COMPACTED or not rows.num_rows:
        return why
    for name, base in (("$offset", first.base_offset), ("$sequence", first.base_sequence)):
        numbers = rows.column(name)
        if (numbers[0].as_py(), numbers[-1].as_py()) != (base, base + rows.num_rows - 1):
            return EXPLICIT
    return IMPLICIT


def _without_redundant_columns(rows: pa.Table, merged: int) -> pa.Table:
    """Without columns that carry no information."""
    optional = [n for n in (*SYSTEM_COLUMNS, "$tombstoned_at") if n not in ("$timestamp", "$offset", "$sequence")]
    empty = [name for name in optional if rows.column(name).null_count == rows.num_rows]
    counted = ["$offset", "$sequence"] if merged == IMPLICIT else []
    return rows.drop_columns([*empty, *counted])


def _encode(log: MaintainedLog, stored: pa.Table, archive: bool) -> Encoded:
    if not archive:
        return log.encoder.stage(stored.combine_chunks())
    path = log.folder / "archive" / log.encoder.new_path("parquet").name
    times = stored.column("$timestamp").combine_chunks().to_numpy()
    return Encoded(stored.num_rows, int(times.min()), int(times.max()), write_archive(path, stored), 0, None, path.name)


def _ranges(old: Sequence[LiveExtent]) -> tuple[int, int, int, int]:
    """The offsets and sequences that a new extent covers: all that the old ones covered, including gaps."""
    return (
        old[0].extent.base_offset,
        old[-1].extent.last_offset,
        old[0].extent.base_sequence,
        old[-1].extent.last_sequence,
    )


def _retire(db: sqlite3.Connection, ids: list[int], now: int) -> bool:
    condition = "id IN (SELECT value FROM json_each(?))"  # there may be more ids than SQLite allows parameters
    ids_json = json.dumps(ids)
    ((live,),) = db.execute(f"SELECT count(*) FROM extents WHERE {condition} AND replaced_at IS NULL", (ids_json,))
    if live != len(ids):
        return False
    db.execute(f"UPDATE extents SET replaced_at = ? WHERE {condition}", (now, ids_json))
    return True
