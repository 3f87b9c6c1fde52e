"""The newest dead letters of a query. A dead-letter topic may be long, and other queries may write to it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from headrace.contracts import Topic
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources import dead_letters

PAGE_SIZE = 50
"""Dead letters on one page."""
_AT_ONCE = 200
_MAX_SCANNED = 20_000


@dataclass(frozen=True)
class DeadLetterList:
    dead_letters: list[dead_letters.DeadLetter]
    are_more: bool


@dataclass(frozen=True)
class RecentDeadLetters:
    """The unresolved dead letters of a query, at most `most`."""

    query: str
    most: int
    settled: int = 0
    """Resolved by the requesting page: part of the cache key, so that no earlier answer is used."""

    work: ClassVar = WorkClass.PULL

    def stamp(self, context: RequestContext) -> object:
        """None: dead letters are resolved without a record in their topic."""
        return None

    def answer(self, context: RequestContext) -> DeadLetterList:
        topics = dead_letters.list_dead_letter_topics(context, dead_letters.ListTopicsRequest(query=self.query))
        each = [
            self._of(context, one.topic, partition) for one in topics for partition in context.log.bounds(one.topic)
        ]
        merged = heapq.merge(*each, key=lambda dead_letter: -dead_letter.timestamp)
        newest = list(islice(merged, self.most + 1))
        return DeadLetterList(newest[: self.most], len(newest) > self.most)

    def _of(self, context: RequestContext, name: str, partition: int) -> Iterator[dead_letters.DeadLetter]:
        """From the end backwards, a batch at a time, up to a limit."""
        topic = context.log.topic(name)
        start, end = context.log.bounds(name)[partition]
        start = max(start, end - _MAX_SCANNED)
        while end > start:
            first = max(start, end - _AT_ONCE)
            yield from reversed(
                [one for one in _between(context, topic, partition, first, end) if self._is_wanted(one)]
            )
            end = first

    def _is_wanted(self, dead_letter: dead_letters.DeadLetter) -> bool:
        return dead_letter.query == self.query and dead_letter.state == dead_letters.UNRESOLVED


def _between(
    context: RequestContext, topic: Topic, partition: int, first: int, end: int
) -> Iterator[dead_letters.DeadLetter]:
    while first < end:
        batch = context.log.read(topic.name, partition, first, max_records=end - first)
        yield from dead_letters.dead_letters_in(context, topic, batch)
        if batch.next_offset == first:
            return
        first = batch.next_offset
