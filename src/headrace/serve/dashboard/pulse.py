"""One look a second at the whole server, however many people watch. Nobody watches: nobody looks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool

from headrace.control.condition import Condition, conditions, views
from headrace.control.status import Course
from headrace.plan.catalog import SourceInfo
from headrace.serve.api.site import Site

EVERY = 1.0
"""Seconds between two looks."""


@dataclass(frozen=True)
class TopicNow:
    """`rate` is in records a second; `records` are those that it holds, or a few more: offsets have gaps."""

    name: str
    partitions: int
    records: int
    rate: float


@dataclass(frozen=True)
class Moment:
    """The server at one moment."""

    at: float
    topics: Mapping[str, TopicNow] = field(default_factory=dict)
    queries: list[Condition] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    sources: Mapping[str, SourceInfo] = field(default_factory=dict)
    broken: Mapping[int, str] = field(default_factory=dict)

    @property
    def rate_in(self) -> float:
        """Records a second that come from outside: into topics that no query writes."""
        written = {query.topic for query in self.queries}
        return sum(topic.rate for topic in self.topics.values() if topic.name not in written)


class Pulse:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._turn = asyncio.Lock()
        self._courses: dict[str, Course] = {}
        self._moment: Moment | None = None

    async def now(self) -> Moment:
        """The latest look, which is never older than a moment."""
        async with self._turn:
            if self._moment is None or time.monotonic() - self._moment.at >= 0.9 * EVERY:
                self._moment = await run_in_threadpool(self._look)
            return self._moment

    def _look(self) -> Moment:
        at, node = time.monotonic(), self._site.node
        topics: dict[str, TopicNow] = {}
        for name, bounds in self._site.bounds().items():
            end = sum(one.end for one in bounds.values())
            held = end - sum(one.start for one in bounds.values())
            course = self._courses.setdefault(name, Course(deque([(at, end)])))
            topics[name] = TopicNow(name, len(bounds), held, max(0.0, course.rate(at, end)))
        for gone in self._courses.keys() - topics.keys():
            del self._courses[gone]
        broken = {number: str(error) for number, error in node.broken.items()}
        queries = conditions(node, self._site.watch)
        return Moment(at, topics, queries, views(node), dict(node.catalog.sources), broken)
