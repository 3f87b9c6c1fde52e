"""Log compaction: retains the latest row of each key; removes the tombstones of deleted keys after a while.

Offsets and sequences of the retained rows do not change, so readers only see gaps. A tombstone records when compaction
first met it and is retained for `tombstone_time` from then on, so that every reader who reads within that time sees the
deletion. Rows without a key are retained.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.clock import millis
from headrace.log.embedded.maintenance.maintained_log import MaintainedLog
from headrace.log.embedded.maintenance.rewrite import COMPACTED, LiveExtent, live_extents, replace, rows_of
from headrace.log.embedded.storage.extents import ARCHIVE
from headrace.log.embedded.storage.topic_catalog import TopicEntry
from headrace.log.partitioners import key_bytes

MIN_DIRTY_RATIO = 0.5  # automatic compaction starts when new extents are at least this share of the compacted ones


def compact(log: MaintainedLog, entry: TopicEntry, partition: int, *, force: bool = False) -> bool:
    """Compact a partition if it is worth it (or with `force`); returns whether rows were rewritten."""
    extents = [item for item in live_extents(log, entry, partition) if item.extent.kind != ARCHIVE]
    if not extents or not (force or _is_dirty(extents)):
        return False
    rows = rows_of(log, entry, extents)
    latest = _latest(rows, entry, log.clock.now())
    return replace(log, entry, partition, extents, latest, archive=False, why=COMPACTED)


def _is_dirty(extents: list[LiveExtent]) -> bool:
    clean = sum(item.bytes for item in extents if item.extent.merged == COMPACTED)
    dirty = sum(item.bytes for item in extents if item.extent.merged != COMPACTED)
    return dirty > clean * MIN_DIRTY_RATIO


def _latest(rows: pa.Table, entry: TopicEntry, now: int) -> pa.Table:
    keys = _keys(rows, entry)
    last = pa.table({"key": keys, "row": np.arange(rows.num_rows)}).group_by("key").aggregate([("row", "max")])
    stays = np.zeros(rows.num_rows, bool)
    stays[last.column("row_max").to_numpy()] = True
    stays |= keys.is_null().to_numpy(zero_copy_only=False)
    rows = rows.filter(pa.array(stays))
    return _without_old_tombstones(rows, entry, now)


def _keys(rows: pa.Table, entry: TopicEntry) -> pa.Array:
    schema = entry.topic.schema
    (batch,) = rows.select(list(schema.key)).combine_chunks().to_batches() or [None]
    return key_bytes(batch, schema)


def _without_old_tombstones(rows: pa.Table, entry: TopicEntry, now: int) -> pa.Table:
    deleted = pc.fill_null(rows.column("$deleted"), False)
    if entry.topic.schema.is_raw:
        deleted = pc.or_(deleted, rows.column("value").is_null())
    deleted = pc.and_(deleted, _keys(rows, entry).is_valid())
    since = pc.if_else(deleted, pc.coalesce(rows.column("$tombstoned_at"), pa.scalar(now)), pa.scalar(None, pa.int64()))
    rows = rows.set_column(rows.schema.get_field_index("$tombstoned_at"), "$tombstoned_at", since)
    young = pc.greater(pc.add(since, millis(entry.topic.spec.tombstone_time)), now)
    return rows.filter(pc.or_kleene(pc.invert(deleted), young))
