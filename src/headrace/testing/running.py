"""A query at work in the world: its chain, between the formats of its sources and its sink, and its state.

Stores have names that survive a change of the plan, so a query that takes over finds those of the one before it.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.plan.chain.contract import Context, Problem, Store
from headrace.plan.chain.pipe import Pipe
from headrace.plan.chain.records import Raw
from headrace.plan.nodes import Query
from headrace.testing.topics import Entry

Stores = dict[str, Store]


class Running:
    def __init__(
        self, query: Query, report: Callable[[Problem], None], stores: Stores | None = None, now: int | None = None
    ) -> None:
        self.query = query
        self.stores: Stores = {} if stores is None else stores
        self._pipe = Pipe(query, Context(lambda name: self.stores.setdefault(name, {}), report, now=lambda: now))
        self.topics = self._pipe.chain.topics
        self.paused = False
        self._waiting: list[Entry] = []

    def held(self, pause: bool) -> list[Entry]:
        """Pause, or go on; what came meanwhile is to be fed now."""
        self.paused = pause
        waiting = [] if pause else self._waiting
        self._waiting = self._waiting if pause else []
        return waiting

    def feed(self, entry: Entry) -> list[Raw]:
        """What a record makes the query write; nothing while it is paused."""
        if self.paused:
            self._waiting.append(entry)
            return []
        return self._pipe.feed(entry.topic, [raw(entry)])

    def tick(self, now: int) -> list[Raw]:
        return self._pipe.tick(now)


def raw(entry: Entry) -> Raw:
    return Raw(entry.key, entry.value, entry.timestamp, entry.headers, entry.partition, entry.offset)
