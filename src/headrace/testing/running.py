"""A query at work in the world: its chain, between the formats of its sources and its sink, and its state.

The state is kept under names that survive a change of the plan: the second aggregate's store is found again by the
second aggregate of the query that takes over, whatever filters came or went between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from headrace.errors import BadRecord
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Context, Event, Problem, Store
from headrace.plan.chain.pipe import Pipe
from headrace.plan.chain.records import Decoder, Encoder, Raw
from headrace.plan.nodes import Query, Sink, Source, walk
from headrace.plan.rules import optimized
from headrace.testing.topics import Entry

Stores = dict[str, Store]


class Running:
    def __init__(self, query: Query, report: Callable[[Problem], None], stores: Stores | None = None) -> None:
        self.query = query
        self.stores: Stores = {} if stores is None else stores
        self._names = _lasting_names(optimized(query))
        self._pipe = Pipe(query, Context(self._store, report))
        self.topics = self._pipe.chain.topics
        self._paused = False
        self._waiting: list[Entry] = []

    def held(self, pause: bool) -> list[Entry]:
        """Pause, or go on; what came meanwhile is to be fed now."""
        self._paused = pause
        waiting = [] if pause else self._waiting
        self._waiting = self._waiting if pause else []
        return waiting

    def feed(self, entry: Entry) -> list[Raw]:
        """What a record makes the query write; nothing while it is paused."""
        if self._paused:
            self._waiting.append(entry)
            return []
        return self._pipe.feed(entry.topic, [raw(entry)])

    def tick(self, now: int) -> list[Raw]:
        return self._pipe.tick(now)

    def _store(self, name: str) -> Store:
        step, _, own = name.partition("/")
        return self.stores.setdefault(f"{self._names.get(step, step)}/{own}", {})


def _lasting_names(query: Query) -> dict[str, str]:
    """The chain numbers steps from the sink on; here each is numbered among those of its kind."""
    names: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for number, node in enumerate(walk(query.sink)):
        kind = type(node).__name__.lower()
        names[f"{number}-{kind}"] = f"{kind}-{seen[kind]}"
        seen[kind] += 1
    return names


def raw(entry: Entry) -> Raw:
    return Raw(entry.key, entry.value, entry.timestamp, entry.headers, entry.partition, entry.offset)


# -- single records of a source -------------------------------------------------------------------------------------


def encoded(source: SourceInfo, time: int, key: Any, row: Any) -> Raw:
    """A row written by hand, as the source's formats have it. A source's time column is read, never set."""
    read = _source(source)
    record = Encoder(
        Sink(read, source.relation, source.name, source.topic, source.key_format, source.value_format)
    ).encode((time, key, row))
    if isinstance(record, Problem):
        raise BadRecord(f"the row cannot be written to {source.name}: {record.reason}", fix="change the values")
    return record


def decoded(source: SourceInfo, entry: Entry) -> Event:
    """A record as `(time, key, row)`, its time that of the record."""
    event = Decoder(_source(source)).decode(raw(entry))
    if isinstance(event, Problem):
        raise BadRecord(f"a record of {source.name} cannot be read: {event.reason}", fix="see who wrote it")
    return event


def _source(source: SourceInfo) -> Source:
    return Source(source.name, source.topic, source.relation, source.key_format, source.value_format)
