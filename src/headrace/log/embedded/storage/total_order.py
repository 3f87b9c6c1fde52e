"""Total order over all topics of an embedded log: positions are sequences.

A position is returned only when everything up to it is durable, so that a stored position never lies beyond the log's
end after a machine crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headrace.log.embedded.storage.store import Store
from headrace.log.embedded.storage.topic_catalog import TopicCatalog

_EXTENTS_IN_CUT = 20_000


class ReadableLog(Protocol):
    """The part of a log that is needed here."""

    store: Store
    catalog: TopicCatalog


def _ids(log: ReadableLog, topics: Iterable[str]) -> tuple[str, list[int]]:
    ids = [log.catalog.entry(name).id for name in topics]
    return ",".join("?" * len(ids)), ids


def head(log: ReadableLog, topics: Iterable[str]) -> int:
    """The highest sequence among the topics' rows, made durable."""
    marks, ids = _ids(log, topics)
    ((sequence,),) = log.store.query(f"SELECT max(last_sequence) FROM partitions WHERE topic IN ({marks})", *ids)
    sequence = sequence or 0
    log.store.sync(sequence)
    return sequence


def removed(log: ReadableLog, topics: Iterable[str]) -> int:
    """The highest sequence that retention has removed; 0 if none."""
    marks, ids = _ids(log, topics)
    ((removed,),) = log.store.query(f"SELECT max(removed_sequence) FROM partitions WHERE topic IN ({marks})", *ids)
    return removed or 0


def lag(log: ReadableLog, topics: Iterable[str], after: int) -> int:
    """Estimated number of rows after a position: merged extents are assumed to be evenly filled. 0 is exact."""
    marks, ids = _ids(log, topics)
    ((rows,),) = log.store.query(
        "SELECT sum(max(1, rows * (last_sequence - max(base_sequence - 1, ?)) / (last_sequence - base_sequence + 1))) "
        f"FROM extents WHERE topic IN ({marks}) AND last_sequence > ? AND replaced_at IS NULL",
        after,
        *ids,
        after,
    )
    return rows or 0


def cut(log: ReadableLog, topics: Iterable[str], after: int, max_rows: int) -> int:
    """The furthest position with about `max_rows` rows between it and `after`."""
    names = list(topics)
    marks, ids = _ids(log, names)
    extents = log.store.query(
        f"SELECT base_sequence, last_sequence, rows FROM extents WHERE topic IN ({marks}) AND last_sequence > ? "
        f"AND replaced_at IS NULL ORDER BY last_sequence LIMIT {_EXTENTS_IN_CUT}",
        *ids,
        after,
    )
    if not extents:
        return max(after, head(log, names))
    position = _last_within(np.array(extents, np.int64), after, max_rows)
    if position == extents[-1][1] and len(extents) < _EXTENTS_IN_CUT:
        return max(after, head(log, names))
    log.store.sync(position)
    return position


def _last_within(extents: npt.NDArray[np.int64], after: int, max_rows: int) -> int:
    """The last sequence with about `max_rows` rows up to it: merged extents are assumed to be evenly filled.

    Merged extents of several partitions overlap, so only all of them together give the number of rows.
    """
    base, last, rows = extents.T
    dense = rows / (last - base + 1)
    low, high = after + 1, int(last[-1])
    while low < high:
        middle = (low + high + 1) // 2
        inside = np.minimum(last, middle) - np.maximum(after, base - 1)
        if float((dense * np.maximum(inside, 0)).sum()) <= max_rows:
            low = middle
        else:
            high = middle - 1
    return low


def split(log: ReadableLog, topics: Iterable[str], after: int, upto: int, rows: int) -> list[tuple[str, int, int, int]]:
    """Splits a range into pieces `(topic, partition, after, upto)` of about `rows` rows each."""
    pieces: list[tuple[str, int, int, int]] = []
    for name in topics:
        entry = log.catalog.entry(name)
        extents = log.store.query(
            "SELECT partition, last_sequence, rows FROM extents WHERE topic = ? AND last_sequence > ? "
            "AND base_sequence <= ? AND replaced_at IS NULL ORDER BY partition, last_sequence",
            entry.id,
            after,
            upto,
        )
        by_partition: dict[int, list[tuple[int, int]]] = {}
        for partition, last, count in extents:
            by_partition.setdefault(partition, []).append((last, count))
        for partition, partition_extents in by_partition.items():
            ends = _ends(partition_extents, rows, upto)
            pieces += [(name, partition, start, end) for start, end in zip([after, *ends], ends, strict=False)]
    return pieces


def _ends(extents: list[tuple[int, int]], rows: int, upto: int) -> list[int]:
    """Where to cut a partition's extents so that each piece has about `rows` rows; the last cut is the end."""
    ends: list[int] = []
    row_count = 0
    for last, count in extents[:-1]:
        row_count += count
        if row_count >= rows:
            ends.append(min(last, upto))
            row_count = 0
    return [*(end for end in ends if end < upto), upto]
