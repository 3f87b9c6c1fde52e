"""Executes a transient query (SELECT ... EMIT CHANGES): runs the chain of its plan over the topics it follows.

    follower = TransientQuery(log, query, from_beginning=False)
    while (entries := follower.step()) is not None: ...

With `bounded` it ends at the end offsets of its start: that is a pull query on a stream.

Records are processed in the order in which they were appended (see `ordered_reader`). A step ends when its time is
over; records that were read but not processed are left for the next one. No Spark is needed, and nothing is stored: the
same query, executed again, starts from scratch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from time import thread_time
from typing import Any

import pyarrow as pa

from headrace.contracts import Batch, Log
from headrace.control.serving.ordered_reader import OrderedReader
from headrace.engine.query import input_topics
from headrace.plan.analysis.record_layout import RecordLayout, record_layouts
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import Headers, RawRecord
from headrace.plan.nodes import Query
from headrace.plan.steps import Context, Problem

STEP_SECONDS = 0.05
"""CPU seconds of a step; it may take a few records longer."""
_MAX_CHUNK = 16  # records between two checks of the time: a check after each record would cost more


class TransientQuery:
    """Executes one query. `step` returns the results of new records: events, or changes of a table."""

    def __init__(self, log: Log, query: Query, *, from_beginning: bool, bounded: bool = False) -> None:
        names = input_topics(query)
        topics = [log.topic(name) for name in names]
        typed = {layout.topic: layout for layout in record_layouts(query, topics)}
        self._layouts = {t.name: RecordLayout(t.name) if t.schema.is_raw else typed[t.name] for t in topics}
        self._reader = OrderedReader(log, names, self._records, from_beginning=from_beginning, bounded=bounded)
        self.time = -1
        """The latest timestamp of a record."""
        self.problems: list[Problem] = []
        """Records that could not be processed in the last step."""
        self._results: list[Any] = []
        self._pending: deque[tuple[str, RawRecord]] = deque()
        self._chunk_size = 1
        stores: dict[str, Any] = {}
        context = Context(lambda name: stores.setdefault(name, {}), self._report)
        columns = {topic: layout.names for topic, layout in self._layouts.items() if layout.names is not None}
        self._pipeline = Pipeline(query, context, columns=columns, take=self._collect)

    def _records(self, batch: Batch) -> Iterable[RawRecord]:
        layout = self._layouts[batch.topic]
        return layout.records(pa.Table.from_batches([layout.pack(batch)]))

    def _collect(self, entries: list[Any], headers: Headers) -> None:
        del headers
        self._results += entries

    def _report(self, problem: Problem) -> None:
        self.problems.append(problem)

    def step(self) -> list[Any] | None:
        """The results of the next records, possibly empty; None if there are no records."""
        self.problems, self._results = [], []
        self._pending = self._pending or deque(self._reader.next())
        if not self._pending:
            return None
        now = thread_time()
        ends_at = now + STEP_SECONDS
        while self._pending and now < ends_at:
            self._run([self._pending.popleft() for _ in range(min(self._chunk_size, len(self._pending)))])
            before, now = now, thread_time()
            # One by one while they are slow: a regular expression may take half a second for each.
            self._chunk_size = 1 if now - before > STEP_SECONDS / 2 else min(2 * self._chunk_size, _MAX_CHUNK)
        return self._results

    def _run(self, records: list[tuple[str, RawRecord]]) -> None:
        self.time = max(self.time, *(record.time for _, record in records))
        self._pipeline.run(records)

    def tick(self, now: int) -> list[Any]:
        """Advance time to `now` without a record."""
        self.problems, self._results = [], []
        self._pipeline.tick(now)
        return self._results
