"""One look a second at the whole server, however many people watch. Nobody watches: nobody looks."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from starlette.concurrency import run_in_threadpool

from headrace.access.decision import Rights
from headrace.access.grants import Deed, topic
from headrace.control.condition import Condition, conditions, views
from headrace.control.permits import sees_query
from headrace.control.status import Course
from headrace.plan.catalog import SourceInfo
from headrace.plan.nodes import Query
from headrace.serve.api.site import Site

EVERY = 1.0
"""Seconds between two looks."""
_REST = 4  # times what an answer took: so long it is not worked out again
_KEPT = 10.0  # seconds that an answer is kept for which nobody asks


@dataclass(frozen=True)
class TopicNow:
    """`rate` is in records a second; `records` are those that it holds, or a few more: offsets have gaps.

    `end` rises with every record that comes.
    """

    name: str
    partitions: int
    records: int
    rate: float
    end: int = 0


@dataclass(frozen=True)
class Moment:
    """The server at one moment."""

    at: float
    topics: Mapping[str, TopicNow] = field(default_factory=dict)
    queries: list[Condition] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    sources: Mapping[str, SourceInfo] = field(default_factory=dict)
    broken: Mapping[int, str] = field(default_factory=dict)
    plans: Mapping[str, Query] = field(default_factory=dict)
    """Of the queries, by name."""

    def seen_by(self, rights: Rights) -> Moment:
        """Without what somebody may not see."""
        if rights.is_admin:
            return self
        plans = {name: plan for name, plan in self.plans.items() if sees_query(rights, plan)}
        sees = {name for name, source in self.sources.items() if rights.sees(name, source.topic)}
        return replace(
            self,
            topics={name: one for name, one in self.topics.items() if rights.may(Deed.READ, topic(name))},
            queries=[one for one in self.queries if one.name in plans],
            views=[one for one in self.views if one["name"] in sees],
            sources={name: source for name, source in self.sources.items() if name in sees},
            broken={},
            plans=plans,
        )

    @property
    def rate_in(self) -> float:
        """Records a second that come from outside: into topics that no query writes."""
        written = {query.topic for query in self.queries}
        return sum(topic.rate for topic in self.topics.values() if topic.name not in written)


class Question(Protocol):
    """What several people ask for again and again. Equal ones have the same answer; who sees other things asks anew."""

    def stamp(self, site: Site) -> object:
        """What the answer hangs on: while it is the same, so is the answer. None: nobody can tell."""
        ...

    def answer(self, site: Site) -> Any: ...


class Answers:
    """Of each question one answer a second, however many ask it, and the same one until its stamp is another.

    One that takes long is had less often: who looks at a chart shall not keep the server from its work.
    """

    def __init__(self) -> None:
        self._turns: dict[Any, asyncio.Lock] = {}
        self._known: dict[Any, tuple[float, object, Any]] = {}

    async def of(self, site: Site, asked: Question) -> Any:
        key = asked, site.rights.is_admin or site.rights.grants
        async with self._turns.setdefault(key, asyncio.Lock()):
            again_at, stamp, answer = self._known.get(key, (-math.inf, None, None))
            if (begun := time.monotonic()) >= again_at:
                stamp, answer = await run_in_threadpool(_looked, site, asked, stamp, answer)
                done = time.monotonic()
                self._known[key] = done + max(0.9 * EVERY, _REST * (done - begun)), stamp, answer
                self._forget()
            return answer

    def _forget(self) -> None:
        """What nobody has asked for a while."""
        old = time.monotonic() - _KEPT
        for key in [one for one, (again_at, _, _) in self._known.items() if again_at < old]:
            del self._known[key]
            self._turns.pop(key, None)


def _looked(site: Site, asked: Question, stamp: object, answer: Any) -> tuple[object, Any]:
    """The stamp is from before the answer: what comes in between is found the next time."""
    now = asked.stamp(site)
    return (stamp, answer) if now is not None and now == stamp else (now, asked.answer(site))


class Pulse:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._turn = asyncio.Lock()
        self._courses: dict[str, Course] = {}
        self._moment: Moment | None = None
        self.answers = Answers()

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
            topics[name] = TopicNow(name, len(bounds), held, max(0.0, course.rate(at, end)), end)
        for gone in self._courses.keys() - topics.keys():
            del self._courses[gone]
        broken = {number: str(error) for number, error in node.broken.items()}
        plans = {name: one.query for name, one in list(node.supervisor.queries.items())}
        queries = conditions(node, self._site.watch)
        return Moment(at, topics, queries, views(node), dict(node.catalog.sources), broken, plans)
