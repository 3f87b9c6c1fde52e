"""Replacing extents by others with the same rows, or fewer: the base of merging, compaction and archiving.

New extents are written first; one transaction then swaps them in, if the old ones are still there. Two processes that
rewrite the same extents do no harm: the second one's swap is refused and its files are removed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.contracts import SYSTEM_COLUMNS
from headrace.faultpoints import reach
from headrace.log.embedded.catalog import Entry
from headrace.log.embedded.extents import ARCHIVE, FILE, INLINE, write_archive
from headrace.log.embedded.extents import Extent as Encoded
from headrace.log.embedded.placing import insert_extent
from headrace.log.embedded.reading import COLUMNS, Extent
from headrace.log.embedded.store import remove_unnamed
from headrace.log.rows import conform

if TYPE_CHECKING:
    from headrace.log.embedded.log import EmbeddedLog

IMPLICIT, EXPLICIT, COMPACTED = 0, 1, 2  # the `merged` column: whether offsets are counted up or stored, and why


@dataclass(frozen=True)
class Held:
    """An extent with what the policies ask of it."""

    extent: Extent
    bytes: int
    max_time: int
    created_at: int


def held(log: EmbeddedLog, entry: Entry, partition: int) -> list[Held]:
    """The live extents of a partition in order, without their rows."""
    columns = COLUMNS.replace("payload", "NULL")
    rows = log.store.query(
        f"SELECT {columns}, bytes, max_time, created_at FROM extents WHERE topic = ? AND partition = ? "
        "AND replaced_at IS NULL ORDER BY last_offset",
        entry.id,
        partition,
    )
    return [Held(Extent(*row[:-3]), *row[-3:]) for row in rows]


def rows_of(log: EmbeddedLog, entry: Entry, extents: Sequence[Held]) -> pa.Table:
    """All rows of some extents with today's columns, `$offset`, `$sequence` and what compaction noted."""
    return pa.Table.from_batches([batch for item in extents for batch in _stored(log, entry, item.extent)])


def _stored(log: EmbeddedLog, entry: Entry, extent: Extent) -> list[pa.RecordBatch]:
    if extent.kind == INLINE:
        ((payload,),) = log.store.query("SELECT payload FROM extents WHERE id = ?", extent.id)
        extent = extent._replace(payload=payload)
    batches: list[pa.RecordBatch] = []
    names = [*entry.topic.schema.names, *SYSTEM_COLUMNS, "$tombstoned_at"]
    for batch, places in log.reader.placed(extent, entry.topic.name):
        noted = "$tombstoned_at" in batch.schema.names
        since = batch.column("$tombstoned_at") if noted else pa.nulls(batch.num_rows, pa.int64())
        batches.append(pa.RecordBatch.from_arrays([*conform(batch, entry.topic.schema), *places, since], names))
    return batches


def replace(
    log: EmbeddedLog, entry: Entry, partition: int, old: Sequence[Held], rows: pa.Table, *, archive: bool, why: int
) -> bool:
    """Swap `old` for one extent with `rows` (none, if there are no rows); False if somebody else was faster."""
    merged = _counting(rows, why, old[0].extent)
    stored = _slim(rows, merged)
    new = _encode(log, stored, archive) if rows.num_rows else None
    reach("rewrite.encoded")
    ranges = _ranges(old)
    now = log.clock.now()

    def change(db: sqlite3.Connection) -> bool:
        # Rows were read with the columns that the topic had: should it have more by now, they would be cut off.
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


def _counting(rows: pa.Table, why: int, first: Extent) -> int:
    """Offsets and sequences need not be stored where both simply count up from where the extent begins."""
    if why == COMPACTED or not rows.num_rows:
        return why
    for name, base in (("$offset", first.base_offset), ("$sequence", first.base_sequence)):
        numbers = rows.column(name)
        if (numbers[0].as_py(), numbers[-1].as_py()) != (base, base + rows.num_rows - 1):
            return EXPLICIT
    return IMPLICIT


def _slim(rows: pa.Table, merged: int) -> pa.Table:
    """Without columns that say nothing."""
    optional = [n for n in (*SYSTEM_COLUMNS, "$tombstoned_at") if n not in ("$timestamp", "$offset", "$sequence")]
    empty = [name for name in optional if rows.column(name).null_count == rows.num_rows]
    counted = ["$offset", "$sequence"] if merged == IMPLICIT else []
    return rows.drop_columns([*empty, *counted])


def _encode(log: EmbeddedLog, stored: pa.Table, archive: bool) -> Encoded:
    if not archive:
        return log.encoder.stage(stored.combine_chunks())
    path = log.folder / "archive" / log.encoder.new_path("parquet").name
    times = stored.column("$timestamp").combine_chunks().to_numpy()
    return Encoded(stored.num_rows, int(times.min()), int(times.max()), write_archive(path, stored), 0, None, path.name)


def _ranges(old: Sequence[Held]) -> tuple[int, int, int, int]:
    """The range of offsets and sequences a new extent stands for: all that the old ones did, gaps included."""
    return (
        old[0].extent.base_offset,
        old[-1].extent.last_offset,
        old[0].extent.base_sequence,
        old[-1].extent.last_sequence,
    )


def _retire(db: sqlite3.Connection, ids: list[int], now: int) -> bool:
    chosen = "id IN (SELECT value FROM json_each(?))"  # there may be more of them than SQLite takes parameters
    given = json.dumps(ids)
    ((live,),) = db.execute(f"SELECT count(*) FROM extents WHERE {chosen} AND replaced_at IS NULL", (given,))
    if live != len(ids):
        return False
    db.execute(f"UPDATE extents SET replaced_at = ? WHERE {chosen}", (now, given))
    return True
