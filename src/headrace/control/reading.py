"""Topics read in the order in which their records came.

On the embedded log that is the one order over all topics, on Kafka the records' times, among those that are there at a
look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from operator import itemgetter

import pyarrow.compute as pc

from headrace.contracts import Batch, Log, TopicPartition
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.records import Raw

MOST = 2_000  # records of a partition that are looked at together


class Reading:
    """From the beginning, or what comes from now on; `to_the_end` that is there now, or for ever."""

    def __init__(
        self,
        log: Log,
        topics: Sequence[str],
        records: Callable[[Batch], Iterable[Raw]],
        *,
        from_beginning: bool,
        to_the_end: bool = False,
    ) -> None:
        self._log, self._topics, self._records = log, topics, records
        found = {TopicPartition(t, p): bounds for t in topics for p, bounds in log.bounds(t).items()}
        self._places = {place: bounds.start if from_beginning else bounds.end for place, bounds in found.items()}
        self._ends = {place: bounds.end for place, bounds in found.items()} if to_the_end else {}

    def next(self) -> list[tuple[str, Raw]]:
        """The next records with their topics, as far as their order is known; none if there are none yet.

        Of no partition there are more than what all others have shown, too.
        """
        last = self._log.head(self._topics) if isinstance(self._log, EmbeddedLog) else None
        due = {p: offset for p, offset in self._places.items() if p not in self._ends or offset < self._ends[p]}
        found = {place: self._log.read(*place, offset, max_records=MOST) for place, offset in due.items()}
        for batch in found.values():
            if last is not None and len(batch) >= MOST:
                last = min(last, pc.max(batch.rows.column("$sequence")).as_py())
        parts = [self._part(place, batch, last) for place, batch in found.items() if len(batch)]
        return [(topic, record) for _, topic, record in merge(*parts, key=itemgetter(0))]

    def _part(self, place: TopicPartition, batch: Batch, last: int | None) -> list[tuple[int, str, Raw]]:
        """The batch's records up to the last that counts, with their places in the order."""
        rows = batch.rows
        if (end := self._ends.get(place)) is not None and batch.next_offset > end:
            rows = rows.filter(pc.less(rows.column("$offset"), end))
        if rows.num_rows and last is not None and pc.max(rows.column("$sequence")).as_py() > last:
            rows = rows.filter(pc.less_equal(rows.column("$sequence"), last))
        if not rows.num_rows:
            return []
        is_all = rows.num_rows == len(batch)
        self._places[place] = batch.next_offset if is_all else rows.column("$offset")[-1].as_py() + 1
        records = self._records(Batch(batch.topic, batch.partition, rows, self._places[place]))
        order = rows.column("$timestamp" if last is None else "$sequence").to_pylist()
        return [(at, place.topic, record) for at, record in zip(order, records, strict=True)]
