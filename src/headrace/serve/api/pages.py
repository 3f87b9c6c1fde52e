"""The next page of a topic: several who read live are mostly at the same place, so it is read once for all of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import orjson
from starlette.concurrency import run_in_threadpool

from headrace.contracts import Log, Topic, TopicPartition
from headrace.errors import UnknownTopic
from headrace.serve.api.positions import Positions, position_text
from headrace.serve.api.reading import Reading
from headrace.serve.api.shown import documents, page_of

AT_ONCE = 500
"""Records in a page."""
_BYTES = 1 << 20
_KEPT = 16


@dataclass(frozen=True)
class Page:
    """Records, and where to read on; `behind` is how many lay ahead before it was read, `left` after."""

    lines: list[bytes]
    positions: dict[TopicPartition, int]
    behind: int = 0
    left: int = 0

    @cached_property
    def following(self) -> str:
        return position_text(self.positions)

    @cached_property
    def event(self) -> bytes:
        """As a server-sent event; without records it only says where one is."""
        data = b"[" + b",".join(self.lines) + b"]" if self.lines else orjson.dumps(self.following)
        return (
            f"id: {self.following}\nevent: {'records' if self.lines else 'position'}\ndata: ".encode() + data + b"\n\n"
        )

    @cached_property
    def message(self) -> str:
        """As a message of a WebSocket."""
        return page_of(self.lines, {"next": self.following}).decode()


class Pages:
    """On the loop only."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._read: OrderedDict[object, asyncio.Future[Page]] = OrderedDict()

    async def next(self, turn: int, topic: Topic, positions: Positions, *, grows: bool) -> Page:
        """From some positions on. Who asks in another turn may find more, so only those of one turn share a page."""
        key = (turn, topic.name, grows, tuple(sorted(positions.items())))
        if key not in self._read:
            reading = run_in_threadpool(read_page, self._log, topic, dict(positions), grows=grows)
            self._read[key] = asyncio.ensure_future(reading)
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return await asyncio.shield(self._read[key])  # one who goes away takes nothing from the others


def read_page(log: Log, topic: Topic, positions: dict[TopicPartition, int], *, grows: bool) -> Page:
    """Refuses to go on in another topic that has the name by now."""
    now = log.topic(topic.name)
    if now.created_at != topic.created_at:
        raise UnknownTopic(f'topic "{topic.name}" was deleted, and made anew', fix="begin anew, from its beginning")
    reading = Reading(log, positions, grows=grows, most_bytes=_BYTES)
    behind = reading.behind()
    batches = reading.page(AT_ONCE)
    lines = [line for batch in batches for line in documents(batch, now.schema)]
    return Page(lines, reading.positions, behind, reading.behind() if lines else 0)
