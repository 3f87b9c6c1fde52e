"""Caches the next page of a topic: live readers are mostly at the same position, so it is read once for all."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property, partial

import orjson

from headrace.contracts import Log, Topic, TopicPartition
from headrace.errors import UnknownTopic
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.partition_reader import PartitionReader
from headrace.serve.api.log_io.positions import Positions, format_positions
from headrace.serve.api.log_io.record_encoder import encode_json, json_page

MAX_PAGE_RECORDS = 500
"""Maximum records in a page."""
_BYTES = 1 << 20
_MAX_PAGES = 16
_SHARED = "live readers"  # a page is read for several principals


@dataclass(frozen=True)
class TailPage:
    """Records, and the next positions; `behind` is the lag before the page was read, `left` the lag after it."""

    lines: list[bytes]
    positions: dict[TopicPartition, int]
    behind: int = 0
    left: int = 0

    @cached_property
    def following(self) -> str:
        return format_positions(self.positions)

    @cached_property
    def event(self) -> bytes:
        """The page as a server-sent event; without records, it contains only the position."""
        data = b"[" + b",".join(self.lines) + b"]" if self.lines else orjson.dumps(self.following)
        return (
            f"id: {self.following}\nevent: {'records' if self.lines else 'position'}\ndata: ".encode() + data + b"\n\n"
        )

    @cached_property
    def message(self) -> str:
        """The page as a WebSocket message."""
        return json_page(self.lines, {"next": self.following}).decode()


class TailPageCache:
    """Event loop only."""

    def __init__(self, log: Log, admission: Admission) -> None:
        self._log = log
        self._admission = admission
        self._read: OrderedDict[object, asyncio.Future[TailPage]] = OrderedDict()

    async def next(self, turn: int, topic: Topic, positions: Positions, *, grows: bool) -> TailPage:
        """The page after some positions. A later turn may find more records, so pages are shared only within a turn."""
        key = (turn, topic.name, grows, tuple(sorted(positions.items())))
        if key not in self._read:
            read = partial(read_tail_page, self._log, topic, dict(positions), grows=grows)
            reading = self._admission.run_started(WorkClass.PUSH, _SHARED, read)
            self._read[key] = asyncio.ensure_future(reading)
            while len(self._read) > _MAX_PAGES:
                self._read.popitem(last=False)
        return await asyncio.shield(self._read[key])  # cancelling one reader must not cancel the read of the others


def read_tail_page(log: Log, topic: Topic, positions: dict[TopicPartition, int], *, grows: bool) -> TailPage:
    """Read a page. Raises if the topic was deleted and another one has its name."""
    now = log.topic(topic.name)
    if now.created_at != topic.created_at:
        raise UnknownTopic(
            f'topic "{topic.name}" was deleted and created again', fix="read it again from its beginning"
        )
    reading = PartitionReader(log, positions, grows=grows, most_bytes=_BYTES)
    behind = reading.behind()
    batches = reading.page(MAX_PAGE_RECORDS)
    lines = [line for batch in batches for line in encode_json(batch, now.schema)]
    return TailPage(lines, reading.positions, behind, reading.behind() if lines else 0)
