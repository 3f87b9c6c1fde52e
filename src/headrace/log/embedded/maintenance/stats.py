"""Statistics of an embedded log."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.log.embedded.maintenance.maintained_log import MaintainedLog
from headrace.log.embedded.storage.extents import ARCHIVE, FILE, INLINE
from headrace.settings import Size


@dataclass(frozen=True)
class Stats:
    """A log in numbers. `unmerged` extents are as they were appended; `replaced` ones await removal."""

    topics: int
    partitions: int
    rows: int
    bytes: Size
    sequence: int
    extents: int
    inline: int
    files: int
    archived: int
    unmerged: int
    replaced: int
    database_bytes: Size
    wal_bytes: Size
    groups: int


def stats(log: MaintainedLog) -> Stats:
    """Computes all statistics from the database alone."""
    ((topics,),) = log.store.query("SELECT count(*) FROM topics")
    ((partitions,),) = log.store.query("SELECT count(*) FROM partitions")
    ((sequence,),) = log.store.query("SELECT value FROM meta WHERE name = 'sequence'")
    ((replaced,),) = log.store.query("SELECT count(*) FROM extents WHERE replaced_at IS NOT NULL")
    rows = log.store.query(
        "SELECT kind, merged = 0, count(*), sum(rows), sum(bytes) FROM extents WHERE replaced_at IS NULL GROUP BY 1, 2"
    )

    def count(kind: str) -> int:
        return sum(row[2] for row in rows if row[0] == kind)

    return Stats(
        topics=topics,
        partitions=partitions,
        rows=sum(row[3] for row in rows),
        bytes=Size(sum(row[4] for row in rows)),
        sequence=sequence,
        extents=sum(row[2] for row in rows),
        inline=count(INLINE),
        files=count(FILE),
        archived=count(ARCHIVE),
        unmerged=sum(row[2] for row in rows if row[1] and row[0] != ARCHIVE),
        replaced=replaced,
        database_bytes=Size(log.store.path.stat().st_size),
        wal_bytes=Size(log.store.wal_bytes()),
        groups=len(log.groups()),
    )


def usage_by_partition(log: MaintainedLog, topic: str) -> dict[int, tuple[int, Size]]:
    """Rows and bytes of each partition of a topic, without rows that were truncated within an extent."""
    entry = log.catalog.entry(topic)
    rows = log.store.query(
        "SELECT p.partition, coalesce(sum(min(e.rows, e.last_offset - max(e.base_offset, p.start_offset) + 1)), 0), "
        "coalesce(sum(e.bytes), 0) FROM partitions p LEFT JOIN extents e ON e.topic = p.topic "
        "AND e.partition = p.partition AND e.replaced_at IS NULL WHERE p.topic = ? GROUP BY p.partition",
        entry.id,
    )
    return {partition: (count, Size(size)) for partition, count, size in rows}
