"""A log in memory: topics created on demand, each an ordered list of records, all in one total order.

It replaces the real log in tests: every topic has effectively one partition, and every record is retained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.plan.chain.records import Headers

INPUT_ORIGIN = "input"
"""The origin of a record from outside; any other origin is a statement or a query."""


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record with its position."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    partition: int = 0
    offset: int = 0
    origin: str = INPUT_ORIGIN


@dataclass
class MemoryLog:
    """All records, in order and by topic."""

    entries: list[MemoryRecord] = field(default_factory=list)
    by_name: dict[str, list[MemoryRecord]] = field(default_factory=dict)

    def make(self, topic: str) -> None:
        self.by_name.setdefault(topic, [])

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = (),
        origin: str = INPUT_ORIGIN,
    ) -> MemoryRecord:
        place = self.by_name.setdefault(topic, [])
        entry = MemoryRecord(topic, key, value, timestamp, headers, offset=len(place), origin=origin)
        place.append(entry)
        self.entries.append(entry)
        return entry

    def drop(self, topic: str) -> None:
        self.by_name.pop(topic, None)

    def __getitem__(self, topic: str) -> list[MemoryRecord]:
        return self.by_name.get(topic, [])

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def written(self, topic: str) -> list[MemoryRecord]:
        """The records that statements and queries wrote to a topic, without inputs."""
        return [entry for entry in self[topic] if entry.origin != INPUT_ORIGIN]
