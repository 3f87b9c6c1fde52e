"""Packs rows between Spark's stages: one Spark row holds all rows of a key group as one Arrow batch.

Spark passes rows to a stateful Python operator one by one; packed, 10,000 records of a key group are one row. The
output consists of rows of topics, as the log takes them, and a report about the key group's batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.record.shuffle.partitioner import CLOCK, Numbers, StreamTime, arrival_sequences, split_payload
from headrace.engine.record.task_spec import RecordTaskSpec
from headrace.plan.chain.records import RawRecord
from headrace.plan.rewrite import calls_nondeterministic
from headrace.plan.steps import Event

Items = Sequence[RawRecord] | list[Event]


@dataclass(frozen=True)
class ArrivedRecords:
    """The input of a key group's batch, in order of arrival: records, or events where that is cheaper."""

    topics: Sequence[str]
    numbers: Numbers
    """For each item, the number of its topic."""
    items: Sequence[Any]
    times: Numbers
    """The times of the records, which may differ from those of their events."""
    sequences: Numbers
    stream: StreamTime

    def runs(self, start: int, end: int) -> Iterator[tuple[str, Items]]:
        """The items of a range, with consecutive ones of a topic together."""
        part = self.numbers[start:end]
        cuts = start + 1 + np.flatnonzero(part[1:] != part[:-1])
        for first, last in pairwise([start, *cuts.tolist(), end] if start < end else ()):
            yield self.topics[int(self.numbers[first])], self.items[first:last]

    def places(self, topic: str) -> Numbers:
        """The positions of a topic's items."""
        return np.flatnonzero(self.numbers == self.topics.index(topic))


def read_payloads(payloads: Iterable[bytes], spec: RecordTaskSpec) -> ArrivedRecords:
    """Unpacks the payloads of a key group."""
    by_tag: dict[int, list[bytes]] = {}
    for payload in payloads:
        for part in split_payload(payload):
            by_tag.setdefault(part[-1], []).append(part)
    stream = StreamTime(by_tag.pop(CLOCK, []))
    tables = {tag: _table(parts, spec.layouts[tag].schema) for tag, parts in by_tag.items()}
    if not tables:
        return ArrivedRecords(spec.topics, _NONE, (), _NONE, _NONE, stream)
    columns = _columns(tables)
    order = _order(spec, columns)
    if len(tables) == 1:
        ((tag, table),) = tables.items()
        items = _items(spec, tag, table if (order[1:] > order[:-1]).all() else table.take(pa.array(order)))
    else:
        every = [item for tag, table in tables.items() for item in _items(spec, tag, table)]
        items = [every[place] for place in order.tolist()]
    numbers, times, sequences = (columns[name][order] for name in ("number", "time", "sequence"))
    return ArrivedRecords(spec.topics, numbers, items, times, sequences, stream)


_NONE = np.zeros(0, np.int64)


def _items(spec: RecordTaskSpec, tag: int, rows: pa.Table) -> Items:
    layout = spec.layouts[tag]
    readers = [source for source in spec.plan.sources if source.topic == layout.topic]
    plain = len(readers) == 1 and not calls_nondeterministic(spec.plan.sink)  # else the record of an event matters
    events = layout.events(rows, readers[0]) if plain else None
    return layout.records(rows) if events is None else events


def _table(payloads: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(
        [pa.ipc.read_record_batch(pa.py_buffer(payload), schema) for payload in payloads], schema
    )


def _columns(tables: dict[int, pa.Table]) -> dict[str, Numbers]:
    """The columns that determine the order of records, of all topics together."""
    columns = {
        "number": [np.full(table.num_rows, tag) for tag, table in tables.items()],
        "sequence": [arrival_sequences(table) for table in tables.values()],
        **{n: [table[n].to_numpy() for table in tables.values()] for n in ("time", "partition", "offset")},
    }
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _order(spec: RecordTaskSpec, columns: dict[str, Numbers]) -> Numbers:
    """By sequence; on Kafka, which has no order over partitions, by time, topic, partition and offset."""
    names = sorted(spec.topics)
    ranks = np.array([names.index(topic) for topic in spec.topics])[columns["number"]]
    return np.lexsort([columns["offset"], columns["partition"], ranks, columns["time"], columns["sequence"]])
