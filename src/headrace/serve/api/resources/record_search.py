"""Searches the records of a topic for a text: newest first, a bounded part of the topic per request."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.access.grants import Privilege, ResourceType
from headrace.contracts import Batch, Log, Topic, TopicPartition
from headrace.formats.json.rows import JsonRows
from headrace.schema import Schema
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.positions import format_positions, start_positions
from headrace.serve.api.log_io.record_encoder import encode_json, json_page
from headrace.serve.api.parameters import in_query
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.topics import TopicRequest, user_topic
from headrace.serve.api.route import RawResponse, RequiredPrivilege, Route

JSON = "application/json"
MAX_HITS = 1_000
SCAN_BATCH_RECORDS = 5_000
"""Records to scan between two checks whether to continue."""
MAX_SCANNED_RECORDS = 500_000
"""Maximum records that one request scans."""
_LONGEST = 2.0  # seconds that one request may take


@dataclass(frozen=True, kw_only=True)
class SearchRequest(TopicRequest):
    text: str = in_query("What key, value or a column holds; upper and lower case are the same.", "")
    start: str = in_query("Not older than this: beginning, a time or -10m.", "beginning", name="from")
    before: str = in_query("Older than this: end, a time, -10m, or what `next` said.", "end")
    partition: int | None = in_query("Only this one.", None)
    limit: int = in_query("Maximum number of records to return.", 100, most=MAX_HITS)


def search_records(context: RequestContext, params: SearchRequest) -> RawResponse:
    """Search records that contain a text, newest first. Continue with `next` as `before` until `done`."""
    topic = user_topic(context.log, params.topic)
    search = ReverseSearch(context.log, topic, params)
    lines = search.found()
    facts = {"next": format_positions(search.ends), "scanned": search.scanned, "done": search.is_done}
    return RawResponse(json_page(lines, facts), JSON)


class SearchHit(NamedTuple):
    place: TopicPartition
    offset: int
    time: int
    line: bytes


class ReverseSearch:
    """Reads a topic backwards, one batch of each partition in turn."""

    def __init__(self, log: Log, topic: Topic, params: SearchRequest) -> None:
        self._log, self._topic, self._params = log, topic, params
        self._begins = start_positions(log, topic.name, params.start, params.partition)
        self.ends = start_positions(log, topic.name, params.before, params.partition)
        self.scanned = 0

    @property
    def is_done(self) -> bool:
        return not self._unfinished()

    def _unfinished(self) -> list[TopicPartition]:
        return [place for place, end in self.ends.items() if end > self._begins[place]]

    def found(self) -> list[bytes]:
        """As many matches as requested or as exist; fewer if the scan limit or the time limit is reached."""
        hits: dict[TopicPartition, list[SearchHit]] = {place: [] for place in self.ends}
        deadline = time.monotonic() + _LONGEST
        while unfinished := self._unfinished():
            for place in unfinished:
                hits[place] += self._piece(place)
            if sum(map(len, hits.values())) >= self._params.limit:
                break
            if self.scanned >= MAX_SCANNED_RECORDS or time.monotonic() > deadline:
                break
        merged = heapq.merge(*hits.values(), key=lambda hit: -hit.time)
        newest = list(islice(merged, self._params.limit))
        for place, offset in {hit.place: hit.offset for hit in reversed(list(merged))}.items():
            self.ends[place] = offset + 1  # the remaining matches belong to the next page
        return [hit.line for hit in newest]

    def _piece(self, place: TopicPartition) -> list[SearchHit]:
        """The matches of the batch before `ends`, last one first. Moves `ends` to the start of the batch."""
        end = self.ends[place]
        start = max(self._begins[place], end - (SCAN_BATCH_RECORDS if self._params.text else self._params.limit))
        self.ends[place] = start
        self.scanned += end - start
        return [hit for batch in self._batches(place, start, end) for hit in self._hits(place, batch)][::-1]

    def _batches(self, place: TopicPartition, start: int, end: int) -> Iterator[Batch]:
        while start < end:
            batch = self._log.read(*place, start, max_records=end - start)
            if batch.next_offset == start:
                return
            start = batch.next_offset
            yield batch

    def _hits(self, place: TopicPartition, batch: Batch) -> Iterator[SearchHit]:
        if self._params.text:
            mask = rows_containing(batch.rows, self._topic.schema, self._params.text)
            batch = replace(batch, rows=batch.rows.filter(mask))
        offsets, times = (batch.rows.column(name).to_pylist() for name in ("$offset", "$timestamp"))
        for offset, at, line in zip(offsets, times, encode_json(batch, self._topic.schema), strict=True):
            yield SearchHit(place, offset, at, line)


def rows_containing(rows: pa.RecordBatch, schema: Schema, text: str) -> pa.Array:
    """A mask of the rows that contain the text in any column."""
    if schema.is_raw:
        masks = [pc.match_substring(rows.column(name), text, ignore_case=True) for name in ("key", "value")]
    else:
        lines = JsonRows().encode(rows.select(list(schema.names)), schema)
        masks = [pc.match_substring(lines, text, ignore_case=True)]
    return pc.fill_null(pc.or_kleene(masks[0], masks[-1]), False)


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/search",
        search_records,
        types=(JSON,),
        needs=RequiredPrivilege(Privilege.READ, ResourceType.TOPIC, "topic"),
        work=WorkClass.PULL,
    ),
)
