"""One total order over all topics of an embedded log: positions are sequences.

A position is handed out only when everything up to it is on the disk, so that whoever stores it elsewhere never
stands beyond the log's end after a crash of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.log.embedded.log import EmbeddedLog

_EXTENTS_IN_CUT = 20_000


def _ids(log: EmbeddedLog, topics: Iterable[str]) -> tuple[str, list[int]]:
    ids = [log.catalog.entry(name).id for name in topics]
    return ",".join("?" * len(ids)), ids


def head(log: EmbeddedLog, topics: Iterable[str]) -> int:
    """The highest sequence among the topics' rows, made durable."""
    marks, ids = _ids(log, topics)
    ((reached,),) = log.store.query(f"SELECT max(last_sequence) FROM partitions WHERE topic IN ({marks})", *ids)
    reached = reached or 0
    log.store.sync(reached)
    return reached


def floor(log: EmbeddedLog, topics: Iterable[str]) -> int:
    """Reading after this position misses nothing; before it, retention has removed rows."""
    marks, ids = _ids(log, topics)
    ((removed,),) = log.store.query(f"SELECT max(removed_sequence) FROM partitions WHERE topic IN ({marks})", *ids)
    return removed or 0


def cut(log: EmbeddedLog, topics: Iterable[str], after: int, max_rows: int) -> int:
    """The furthest position with about `max_rows` rows between it and `after`."""
    marks, ids = _ids(log, topics)
    extents = log.store.query(
        f"SELECT base_sequence, last_sequence, rows FROM extents WHERE topic IN ({marks}) AND last_sequence > ? "
        f"AND replaced_at IS NULL ORDER BY last_sequence LIMIT {_EXTENTS_IN_CUT}",
        *ids,
        after,
    )
    position, left = after, max_rows
    for base, last, rows in extents:
        inside = min(rows, last - max(after, base - 1))
        if inside > left:
            # Sequences are unique: between x and x + n there are at most n rows.
            position = max(position, max(after, base - 1) + left)
            break
        left -= inside
        position = last
    else:
        if len(extents) < _EXTENTS_IN_CUT:
            return max(after, head(log, topics))
    log.store.sync(position)
    return position
