"""Reads topics in the order in which their records were appended.

On the embedded log that is the total order over all topics; on Kafka it is the order of timestamps among the records
of one read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from operator import itemgetter

import pyarrow.compute as pc

from headrace.contracts import Batch, Log, TopicPartition
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.records import RawRecord

MAX_RECORDS = 2_000  # records of a partition in one read


class OrderedReader:
    """Reads from the beginning or from now on; with `bounded` up to the current end, else without end."""

    def __init__(
        self,
        log: Log,
        topics: Sequence[str],
        records: Callable[[Batch], Iterable[RawRecord]],
        *,
        from_beginning: bool,
        bounded: bool = False,
    ) -> None:
        self._log, self._topics, self._records = log, topics, records
        partition_bounds = {TopicPartition(t, p): bounds for t in topics for p, bounds in log.bounds(t).items()}
        self._offsets = {
            partition: bounds.start if from_beginning else bounds.end for partition, bounds in partition_bounds.items()
        }
        self._ends = {partition: bounds.end for partition, bounds in partition_bounds.items()} if bounded else {}

    def next(self) -> list[tuple[str, RawRecord]]:
        """The next records with their topics, as far as their order is known; empty if there are none yet.

        No partition is read further than the order over all partitions is known.
        """
        head = self._log.head(self._topics) if isinstance(self._log, EmbeddedLog) else None
        pending = {p: offset for p, offset in self._offsets.items() if p not in self._ends or offset < self._ends[p]}
        batches = {
            partition: self._log.read(*partition, offset, max_records=MAX_RECORDS)
            for partition, offset in pending.items()
        }
        for batch in batches.values():
            if head is not None and len(batch) >= MAX_RECORDS:
                head = min(head, pc.max(batch.rows.column("$sequence")).as_py())
        parts = [self._part(partition, batch, head) for partition, batch in batches.items() if len(batch)]
        return [(topic, record) for _, topic, record in merge(*parts, key=itemgetter(0))]

    def _part(self, partition: TopicPartition, batch: Batch, head: int | None) -> list[tuple[int, str, RawRecord]]:
        """The batch's records up to sequence `head`, with their positions in the order."""
        rows = batch.rows
        if (end := self._ends.get(partition)) is not None and batch.next_offset > end:
            rows = rows.filter(pc.less(rows.column("$offset"), end))
        if rows.num_rows and head is not None and pc.max(rows.column("$sequence")).as_py() > head:
            rows = rows.filter(pc.less_equal(rows.column("$sequence"), head))
        if not rows.num_rows:
            return []
        is_whole_batch = rows.num_rows == len(batch)
        self._offsets[partition] = batch.next_offset if is_whole_batch else rows.column("$offset")[-1].as_py() + 1
        records = self._records(Batch(batch.topic, batch.partition, rows, self._offsets[partition]))
        order = rows.column("$timestamp" if head is None else "$sequence").to_pylist()
        return [(at, partition.topic, record) for at, record in zip(order, records, strict=True)]
