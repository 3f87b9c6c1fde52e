"""Records of a topic by what they hold: the newest first, a bounded part of the topic at a time."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.access.grants import Deed, Kind
from headrace.contracts import Batch, Log, Topic, TopicPartition
from headrace.formats.json import JsonFormat
from headrace.schema import Schema
from headrace.serve.api.parameters import in_query
from headrace.serve.api.positions import position_text, starts
from headrace.serve.api.route import May, Plain, Route
from headrace.serve.api.shown import documents, page_of
from headrace.serve.api.site import Site
from headrace.serve.api.topics import Named, own_topic

JSON = "application/json"
MOST = 1_000
AT_ONCE = 5_000
"""Records that are read before it is decided whether to go on."""
LOOKED_AT = 500_000
"""Records that one request looks at."""
_LONGEST = 2.0  # seconds of one request


@dataclass(frozen=True, kw_only=True)
class Search(Named):
    text: str = in_query("What key, value or a column holds; upper and lower case are the same.", "")
    start: str = in_query("Not older than this: beginning, a time or -10m.", "beginning", name="from")
    before: str = in_query("Older than this: end, a time, -10m, or what `next` said.", "end")
    partition: int | None = in_query("Only this one.", None)
    limit: int = in_query("At most so many records.", 100, most=MOST)


def search_records(site: Site, asked: Search) -> Plain:
    """Records that hold a text, the newest first. Go on with `before` as `next` says until `done`."""
    topic = own_topic(site.log, asked.topic)
    search = Backwards(site.log, topic, asked)
    lines = search.found()
    facts = {"next": position_text(search.ends), "looked_at": search.looked_at, "done": search.is_done}
    return Plain(page_of(lines, facts), JSON)


class Hit(NamedTuple):
    place: TopicPartition
    offset: int
    time: int
    line: bytes


class Backwards:
    """Reads a topic from its end on, a piece of each partition in turn."""

    def __init__(self, log: Log, topic: Topic, asked: Search) -> None:
        self._log, self._topic, self._asked = log, topic, asked
        self._begins = starts(log, topic.name, asked.start, asked.partition)
        self.ends = starts(log, topic.name, asked.before, asked.partition)
        self.looked_at = 0

    @property
    def is_done(self) -> bool:
        return not self._left()

    def _left(self) -> list[TopicPartition]:
        return [place for place, end in self.ends.items() if end > self._begins[place]]

    def found(self) -> list[bytes]:
        """As many as are asked for, or as are there; fewer if that takes too long."""
        hits: dict[TopicPartition, list[Hit]] = {place: [] for place in self.ends}
        deadline = time.monotonic() + _LONGEST
        while left := self._left():
            for place in left:
                hits[place] += self._piece(place)
            if sum(map(len, hits.values())) >= self._asked.limit:
                break
            if self.looked_at >= LOOKED_AT or time.monotonic() > deadline:
                break
        merged = heapq.merge(*hits.values(), key=lambda hit: -hit.time)
        kept = list(islice(merged, self._asked.limit))
        for place, offset in {hit.place: hit.offset for hit in reversed(list(merged))}.items():
            self.ends[place] = offset + 1  # what is left comes with the next page
        return [hit.line for hit in kept]

    def _piece(self, place: TopicPartition) -> list[Hit]:
        """Matches before the end, the last one first. The end moves to where they begin."""
        end = self.ends[place]
        start = max(self._begins[place], end - (AT_ONCE if self._asked.text else self._asked.limit))
        self.ends[place] = start
        self.looked_at += end - start
        return [hit for batch in self._batches(place, start, end) for hit in self._hits(place, batch)][::-1]

    def _batches(self, place: TopicPartition, start: int, end: int) -> Iterator[Batch]:
        while start < end:
            batch = self._log.read(*place, start, max_records=end - start)
            if batch.next_offset == start:
                return
            start = batch.next_offset
            yield batch

    def _hits(self, place: TopicPartition, batch: Batch) -> Iterator[Hit]:
        if self._asked.text:
            mask = holds(batch.rows, self._topic.schema, self._asked.text)
            batch = replace(batch, rows=batch.rows.filter(mask))
        offsets, times = (batch.rows.column(name).to_pylist() for name in ("$offset", "$timestamp"))
        for offset, at, line in zip(offsets, times, documents(batch, self._topic.schema), strict=True):
            yield Hit(place, offset, at, line)


def holds(rows: pa.RecordBatch, schema: Schema, text: str) -> pa.Array:
    """Which rows hold the text, in any column."""
    if schema.is_raw:
        found = [pc.match_substring(rows.column(name), text, ignore_case=True) for name in ("key", "value")]
    else:
        lines = JsonFormat().encode(rows.select(list(schema.names)), schema)
        found = [pc.match_substring(lines, text, ignore_case=True)]
    return pc.fill_null(pc.or_kleene(found[0], found[-1]), False)


ROUTES = (
    Route("GET", "/topics/{topic}/search", search_records, types=(JSON,), needs=May(Deed.READ, Kind.TOPIC, "topic")),
)
