"""The newest dead letters of a query: a topic of dead letters may be long, and others write into it as well."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from headrace.contracts import Topic
from headrace.serve.api import letters
from headrace.serve.api.site import Site

LETTERS = 50
"""Of one page."""
_AT_ONCE = 200
_MOST_LOOKED_AT = 20_000


@dataclass(frozen=True)
class Found:
    letters: list[letters.Shown]
    are_more: bool


@dataclass(frozen=True)
class Newest:
    """Those of a query that nobody has settled, at most so many."""

    query: str
    most: int
    settled: int = 0
    """By the page that asks: who has settled one does not want an answer from before."""

    def stamp(self, site: Site) -> object:
        """Letters are settled without a record in their topic."""
        return None

    def answer(self, site: Site) -> Found:
        boxes = letters.list_boxes(site, letters.Boxes(query=self.query))
        each = [self._of(site, box.topic, partition) for box in boxes for partition in site.log.bounds(box.topic)]
        merged = heapq.merge(*each, key=lambda letter: -letter.timestamp)
        found = list(islice(merged, self.most + 1))
        return Found(found[: self.most], len(found) > self.most)

    def _of(self, site: Site, box: str, partition: int) -> Iterator[letters.Shown]:
        """From the end on, a piece at a time; what lies too far back is left."""
        topic = site.log.topic(box)
        start, end = site.log.bounds(box)[partition]
        start = max(start, end - _MOST_LOOKED_AT)
        while end > start:
            first = max(start, end - _AT_ONCE)
            yield from reversed([one for one in _between(site, topic, partition, first, end) if self._is_wanted(one)])
            end = first

    def _is_wanted(self, letter: letters.Shown) -> bool:
        return letter.query == self.query and letter.state == letters.OPEN


def _between(site: Site, topic: Topic, partition: int, first: int, end: int) -> Iterator[letters.Shown]:
    while first < end:
        batch = site.log.read(topic.name, partition, first, max_records=end - first)
        yield from letters.letters_in(site, topic, batch)
        if batch.next_offset == first:
            return
        first = batch.next_offset
