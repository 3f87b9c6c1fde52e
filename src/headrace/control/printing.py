"""PRINT: a topic's records in the order in which they came, those that are there and those that come.

In a script it shows what is there; on a server it goes on (`Printing`), as one of its `pushes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from headrace.contracts import Batch, Log
from headrace.control.reading import Reading
from headrace.control.rows import records_of
from headrace.errors import UnknownTopic
from headrace.formats.serde.json_writing import dumps
from headrace.plan.answers.printing import cells_of, formats
from headrace.plan.answers.rows import Row
from headrace.plan.catalog import Answer, Catalog, SourceInfo
from headrace.plan.chain.records import Raw

_SAMPLE = 100  # records that tell a format which nobody has declared


class Printing:
    """One that goes on: a follower of its topic, and what makes rows of what it finds."""

    time = -1

    def __init__(self, log: Log, question: Answer, source: SourceInfo | None) -> None:
        self.limit = question.limit
        self.formats = formats(list(islice(records_in(log, question.name, source), _SAMPLE)), source)
        """As far as the topic tells now."""
        self._reading = _reading(log, question.name, source, from_beginning=question.from_beginning)
        self._interval = question.interval or 1
        self._numbers = count()
        self._cells = cells_of(source)

    def step(self) -> list[Raw] | None:
        """The next records; None if there are none."""
        return [record for _, record in self._reading.next()] or None

    def tick(self, now: int) -> list[Raw]:
        """Nothing here waits for a moment in time."""
        del now
        return []

    def of(self, records: list[Raw]) -> list[Row]:
        """Every nth, over all steps."""
        return [Row(dumps(self._cells(r))) for r in records if next(self._numbers) % self._interval == 0]


def source_over(catalog: Catalog, topic: str) -> SourceInfo | None:
    """That says what the topic's records are."""
    return next((source for source in catalog.sources.values() if source.topic == topic), None)


def records_in(log: Log, topic: str, source: SourceInfo | None) -> Iterator[Raw]:
    """All that are there."""
    reading = _reading(log, topic, source, from_beginning=True, to_the_end=True)
    return (record for page in iter(reading.next, []) for _, record in page)


def _reading(
    log: Log, name: str, source: SourceInfo | None, *, from_beginning: bool, to_the_end: bool = False
) -> Reading:
    known = {topic.name: topic for topic in log.topics()}
    if name not in known:
        raise UnknownTopic(f'topic "{name}" does not exist', fix=f"topics: {', '.join(known) or 'none'}")

    def records(batch: Batch) -> Iterator[Raw]:
        return records_of(batch, known[name], source)

    return Reading(log, [name], records, from_beginning=from_beginning, to_the_end=to_the_end)
