"""A running query in memory: its chain with the formats of its sources and its sink, and its state.

Store names survive a change of the plan, so a query that replaces another one finds its stores.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.steps import Context, Problem, Store
from headrace.testing.memory_log import MemoryRecord

Stores = dict[str, Store]


class InMemoryQuery:
    def __init__(
        self, query: Query, report: Callable[[Problem], None], stores: Stores | None = None, now: int | None = None
    ) -> None:
        self.query = query
        self.stores: Stores = {} if stores is None else stores
        self._pipe = Pipeline(query, Context(lambda name: self.stores.setdefault(name, {}), report, now=lambda: now))
        self.topics = self._pipe.chain.topics
        self.paused = False
        self._held_back: list[MemoryRecord] = []

    def set_paused(self, paused: bool) -> list[MemoryRecord]:
        """Pause or resume; returns the records that arrived meanwhile and are to be fed now."""
        self.paused = paused
        released = [] if paused else self._held_back
        self._held_back = self._held_back if paused else []
        return released

    def feed(self, entry: MemoryRecord) -> list[RawRecord]:
        """Process a record; returns the output records, none while the query is paused."""
        if self.paused:
            self._held_back.append(entry)
            return []
        return self._pipe.feed(entry.topic, [raw_record(entry)])

    def tick(self, now: int) -> list[RawRecord]:
        return self._pipe.tick(now)


def raw_record(entry: MemoryRecord) -> RawRecord:
    return RawRecord(entry.key, entry.value, entry.timestamp, entry.headers, entry.partition, entry.offset)
