"""A question that goes on (SELECT ... EMIT CHANGES): the chain of its plan, over topics that are followed.

    follower = Follower(log, query, from_beginning=False)
    while (entries := follower.step()) is not None: ...

One that goes `to_the_end` that was there when it began ends there: a question about a stream that is answered.

Records are taken in the order in which they came: on the embedded log that is the one order over all topics, on Kafka
their times, among those that are there at a look. No Spark is needed, and nothing is kept: who asks again begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import Batch, Log, TopicPartition
from headrace.engine.query import topics_of
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.contract import Context, Problem
from headrace.plan.chain.pipe import Pipe
from headrace.plan.chain.records import Headers, Raw
from headrace.plan.layout import Layout, layouts_of
from headrace.plan.nodes import Query

MOST = 2_000  # records of a partition that are looked at together


class Follower:
    """Of one query. `step` gives what follows from records that have come: events, or changes of a table."""

    def __init__(self, log: Log, query: Query, *, from_beginning: bool, to_the_end: bool = False) -> None:
        self._log = log
        self._topics = topics_of(query)
        topics = [log.topic(name) for name in self._topics]
        typed = {layout.topic: layout for layout in layouts_of(query, topics)}
        self._layouts = {t.name: Layout(t.name) if t.schema.is_raw else typed[t.name] for t in topics}
        found = {TopicPartition(t, p): bounds for t in self._topics for p, bounds in log.bounds(t).items()}
        self._places = {place: bounds.start if from_beginning else bounds.end for place, bounds in found.items()}
        self._ends = {place: bounds.end for place, bounds in found.items()} if to_the_end else {}
        self.time = -1
        """The latest time of a record."""
        self.problems: list[Problem] = []
        """What could not be read, since the last step."""
        self._made: list[Any] = []
        stores: dict[str, Any] = {}
        context = Context(lambda name: stores.setdefault(name, {}), self._report)
        columns = {topic: layout.names for topic, layout in self._layouts.items() if layout.names is not None}
        self._pipe = Pipe(query, context, columns=columns, take=self._take)

    def _take(self, entries: list[Any], headers: Headers) -> None:
        del headers
        self._made += entries

    def _report(self, problem: Problem) -> None:
        self.problems.append(problem)

    def step(self) -> list[Any] | None:
        """What follows from the next records, perhaps nothing; None if there are none."""
        self.problems, self._made = [], []
        records = list(self._next())
        if not records:
            return None
        self.time = max(self.time, *(record.time for _, record in records))
        self._pipe.run(records)
        return self._made

    def tick(self, now: int) -> list[Any]:
        """Time has come to `now` without a record."""
        self.problems, self._made = [], []
        self._pipe.tick(now)
        return self._made

    def _next(self) -> Iterator[tuple[str, Raw]]:
        """In order, as far as that is known: of no partition more than what all others have shown, too."""
        last = self._log.head(self._topics) if isinstance(self._log, EmbeddedLog) else None
        due = {p: offset for p, offset in self._places.items() if p not in self._ends or offset < self._ends[p]}
        found = {place: self._log.read(*place, offset, max_records=MOST) for place, offset in due.items()}
        for batch in found.values():
            if last is not None and len(batch) >= MOST:
                last = min(last, pc.max(batch.rows.column("$sequence")).as_py())
        parts = [self._part(place, batch, last) for place, batch in found.items() if len(batch)]
        return ((topic, record) for _, topic, record in merge(*parts, key=itemgetter(0)))

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
        layout = self._layouts[place.topic]
        cut = Batch(batch.topic, batch.partition, rows, self._places[place])
        records = layout.records(pa.Table.from_batches([layout.packed(cut)]))
        order = rows.column("$timestamp" if last is None else "$sequence").to_pylist()
        return [(at, place.topic, record) for at, record in zip(order, records, strict=True)]
