"""Compaction: of each key only the latest row stays; the mark of a deleted key goes after a while.

Offsets and sequences of the rows that stay do not change, so readers see gaps and nothing else. A tombstone notes
when compaction first met it and is kept for `tombstone_time` from then on, so that every reader who comes by within
that time learns of the deletion. Rows without a key are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.clock import millis
from headrace.log.embedded.catalog import Entry
from headrace.log.embedded.extents import ARCHIVE
from headrace.log.embedded.rewrite import COMPACTED, Held, held, replace, rows_of
from headrace.log.partitioners import key_bytes

if TYPE_CHECKING:
    from headrace.log.embedded.log import EmbeddedLog

DIRTY = 0.5  # compaction by itself starts when new extents are at least this share of the compacted ones


def compact(log: EmbeddedLog, entry: Entry, partition: int, *, force: bool = False) -> bool:
    """Compact a partition if it is worth it (or `force`); says whether rows were rewritten."""
    extents = [item for item in held(log, entry, partition) if item.extent.kind != ARCHIVE]
    if not extents or not (force or _is_dirty(extents)):
        return False
    rows = rows_of(log, entry, extents)
    kept = _latest(rows, entry, log.clock.now())
    return replace(log, entry, partition, extents, kept, archive=False, why=COMPACTED)


def _is_dirty(extents: list[Held]) -> bool:
    clean = sum(item.bytes for item in extents if item.extent.merged == COMPACTED)
    dirty = sum(item.bytes for item in extents if item.extent.merged != COMPACTED)
    return dirty > clean * DIRTY


def _latest(rows: pa.Table, entry: Entry, now: int) -> pa.Table:
    keys = _keys(rows, entry)
    last = pa.table({"key": keys, "row": np.arange(rows.num_rows)}).group_by("key").aggregate([("row", "max")])
    stays = np.zeros(rows.num_rows, bool)
    stays[last.column("row_max").to_numpy()] = True
    stays |= keys.is_null().to_numpy(zero_copy_only=False)
    rows = rows.filter(pa.array(stays))
    return _without_old_tombstones(rows, entry, now)


def _keys(rows: pa.Table, entry: Entry) -> pa.Array:
    schema = entry.topic.schema
    (batch,) = rows.select(list(schema.key)).combine_chunks().to_batches() or [None]
    return key_bytes(batch, schema)


def _without_old_tombstones(rows: pa.Table, entry: Entry, now: int) -> pa.Table:
    deleted = pc.fill_null(rows.column("$deleted"), False)
    if entry.topic.schema.is_raw:
        deleted = pc.or_(deleted, rows.column("value").is_null())
    deleted = pc.and_(deleted, _keys(rows, entry).is_valid())
    since = pc.if_else(deleted, pc.coalesce(rows.column("$tombstoned_at"), pa.scalar(now)), pa.scalar(None, pa.int64()))
    rows = rows.set_column(rows.schema.get_field_index("$tombstoned_at"), "$tombstoned_at", since)
    young = pc.greater(pc.add(since, millis(entry.topic.spec.tombstone_time)), now)
    return rows.filter(pc.or_kleene(pc.invert(deleted), young))
