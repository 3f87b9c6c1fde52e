"""Trims ticks and cuts, which are retained for a replay, once the records that a replay would read are gone.

Topics without a retention keep them forever, as they keep their records. Nothing is trimmed that a query has yet to
read, or may have to read again after a crash.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.contracts import Log
from headrace.engine.checkpoint import cuts_topic, ticks_topic
from headrace.log.embedded import EmbeddedLog
from headrace.log.folded_topic import read_records
from headrace.record import StoredRecord

TRIM_INTERVAL_BATCHES = 1000
"""Batches between two trims."""


def trim_ticks(log: EmbeddedLog, run: str, topics: Sequence[str], done: int) -> None:
    """On the embedded log: trims processed ticks that precede the remaining records of the topics."""
    ticks = ticks_topic(run)
    removed = min(log.removed([topic for topic in topics if topic != ticks]), done)
    last = _last_removable(log, ticks, lambda tick: (tick.sequence or 0) <= removed)
    if last is not None:
        log.truncate(ticks, 0, last + 1)


def trim_cuts(log: Log, run: str, done: int) -> None:
    """On Kafka: trims cuts of committed batches of which no record is left, and their ticks."""
    ticks, starts, removed_ends = ticks_topic(run), dict[str, Mapping[int, int]](), dict[str, Any]()

    def is_removable(stored: StoredRecord) -> bool:
        cut = json.loads(stored.value or b"{}")
        if cut["batch"] > done or not all(_is_removed(log, starts, topic, ends) for topic, ends in _inputs(cut, ticks)):
            return False
        removed_ends.update(cut["end"])
        return True

    last = _last_removable(log, cuts_topic(run), is_removable)
    if last is None:
        return
    if ticks in removed_ends:
        log.truncate(ticks, 0, removed_ends[ticks]["0"])
    log.truncate(cuts_topic(run), 0, last + 1)


def _inputs(cut: Mapping[str, Any], ticks: str) -> list[tuple[str, Mapping[str, int]]]:
    return [(topic, ends) for topic, ends in cut["end"].items() if topic != ticks]


def _is_removed(log: Log, starts: dict[str, Mapping[int, int]], topic: str, ends: Mapping[str, int]) -> bool:
    if topic not in starts:
        starts[topic] = {partition: bounds.start for partition, bounds in log.bounds(topic).items()}
    return all(end <= starts[topic].get(int(partition), 0) for partition, end in ends.items())


def _last_removable(log: Log, topic: str, is_removable: Callable[[StoredRecord], bool]) -> int | None:
    """The offset of the last record in the leading run that satisfies `is_over`; None if there is none."""
    last = None
    for stored in read_records(log, topic):
        if not is_removable(stored):
            break
        last = stored.offset
    return last
