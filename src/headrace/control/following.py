"""A question that goes on (SELECT ... EMIT CHANGES): the chain of its plan, over topics that are followed.

    follower = Follower(log, query, from_beginning=False)
    while (entries := follower.step()) is not None: ...

One that goes `to_the_end` that was there when it began ends there: a question about a stream that is answered.

Records are taken in the order in which they came (see `reading`). A step ends when it has had its time: what was read
and not done yet waits for the next one. No Spark is needed, and nothing is kept: who asks again begins anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from time import thread_time
from typing import Any

import pyarrow as pa

from headrace.contracts import Batch, Log
from headrace.control.reading import Reading
from headrace.engine.query import topics_of
from headrace.plan.chain.contract import Context, Problem
from headrace.plan.chain.pipe import Pipe
from headrace.plan.chain.records import Headers, Raw
from headrace.plan.layout import Layout, layouts_of
from headrace.plan.nodes import Query

TURN = 0.05
"""Seconds of processor time of a step, or the time of a few records more."""
_MANY = 16  # records between two looks at the time: to look after each one would cost more


class Follower:
    """Of one query. `step` gives what follows from records that have come: events, or changes of a table."""

    def __init__(self, log: Log, query: Query, *, from_beginning: bool, to_the_end: bool = False) -> None:
        names = topics_of(query)
        topics = [log.topic(name) for name in names]
        typed = {layout.topic: layout for layout in layouts_of(query, topics)}
        self._layouts = {t.name: Layout(t.name) if t.schema.is_raw else typed[t.name] for t in topics}
        self._reading = Reading(log, names, self._records, from_beginning=from_beginning, to_the_end=to_the_end)
        self.time = -1
        """The latest time of a record."""
        self.problems: list[Problem] = []
        """What could not be read, since the last step."""
        self._made: list[Any] = []
        self._waiting: deque[tuple[str, Raw]] = deque()
        self._few = 1
        stores: dict[str, Any] = {}
        context = Context(lambda name: stores.setdefault(name, {}), self._report)
        columns = {topic: layout.names for topic, layout in self._layouts.items() if layout.names is not None}
        self._pipe = Pipe(query, context, columns=columns, take=self._take)

    def _records(self, batch: Batch) -> Iterable[Raw]:
        layout = self._layouts[batch.topic]
        return layout.records(pa.Table.from_batches([layout.packed(batch)]))

    def _take(self, entries: list[Any], headers: Headers) -> None:
        del headers
        self._made += entries

    def _report(self, problem: Problem) -> None:
        self.problems.append(problem)

    def step(self) -> list[Any] | None:
        """What follows from the next records, perhaps nothing; None if there are none."""
        self.problems, self._made = [], []
        self._waiting = self._waiting or deque(self._reading.next())
        if not self._waiting:
            return None
        now = thread_time()
        ends_at = now + TURN
        while self._waiting and now < ends_at:
            self._run([self._waiting.popleft() for _ in range(min(self._few, len(self._waiting)))])
            before, now = now, thread_time()
            # One by one as long as they are slow: a pattern may take half a second for each.
            self._few = 1 if now - before > TURN / 2 else min(2 * self._few, _MANY)
        return self._made

    def _run(self, records: list[tuple[str, Raw]]) -> None:
        self.time = max(self.time, *(record.time for _, record in records))
        self._pipe.run(records)

    def tick(self, now: int) -> list[Any]:
        """Time has come to `now` without a record."""
        self.problems, self._made = [], []
        self._pipe.tick(now)
        return self._made
