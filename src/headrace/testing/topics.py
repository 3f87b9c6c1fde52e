"""A log in memory: topics made on demand, each an ordered list of records, all in one global order.

It stands where the real log stands, for tests: one partition in effect, every record kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.plan.chain.records import Headers

INPUT = "input"
"""The origin of a record that came from outside; any other origin is a statement's or a query's."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record at its place."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    partition: int = 0
    offset: int = 0
    origin: str = INPUT


@dataclass
class Topics:
    """All records, and the same by topic."""

    entries: list[Entry] = field(default_factory=list)
    by_name: dict[str, list[Entry]] = field(default_factory=dict)

    def make(self, topic: str) -> None:
        self.by_name.setdefault(topic, [])

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = (),
        origin: str = INPUT,
    ) -> Entry:
        place = self.by_name.setdefault(topic, [])
        entry = Entry(topic, key, value, timestamp, headers, offset=len(place), origin=origin)
        place.append(entry)
        self.entries.append(entry)
        return entry

    def drop(self, topic: str) -> None:
        self.by_name.pop(topic, None)

    def __getitem__(self, topic: str) -> list[Entry]:
        return self.by_name.get(topic, [])

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def written(self, topic: str) -> list[Entry]:
        """What statements and queries wrote there; inputs left out."""
        return [entry for entry in self[topic] if entry.origin != INPUT]
