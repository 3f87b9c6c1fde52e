"""Polls the whole server once a second for all open pages. Without open pages, nothing is polled."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.grants import Privilege, topic_resource
from headrace.control.queries.metrics import MetricsWindow
from headrace.control.statements.permissions import can_see_query
from headrace.control.status import QueryStatus, query_statuses, view_statuses
from headrace.plan.nodes import Query
from headrace.plan.sources import SourceInfo
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext

POLL_SECONDS = 1.0
"""Seconds between two polls."""
_REST = 4  # pause before an answer is computed again, as a multiple of the time it took
_CACHE_SECONDS = 10.0  # seconds that an unused answer is cached


@dataclass(frozen=True)
class TopicSnapshot:
    """A topic at one moment. `rate` is in records per second; `records` may be slightly too high, as offsets have gaps.

    `end` rises with every new record.
    """

    name: str
    partitions: int
    records: int
    rate: float
    end: int = 0


@dataclass(frozen=True)
class ServerSnapshot:
    """The server at one moment."""

    at: float
    topics: Mapping[str, TopicSnapshot] = field(default_factory=dict)
    queries: list[QueryStatus] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    sources: Mapping[str, SourceInfo] = field(default_factory=dict)
    broken: Mapping[int, str] = field(default_factory=dict)
    plans: Mapping[str, Query] = field(default_factory=dict)
    """The plans of the queries, by name."""

    def seen_by(self, rights: Rights) -> ServerSnapshot:
        """The snapshot without what the rights do not allow."""
        if rights.is_admin:
            return self
        plans = {name: plan for name, plan in self.plans.items() if can_see_query(rights, plan)}
        sees = {name for name, source in self.sources.items() if rights.sees(name, source.topic)}
        return replace(
            self,
            topics={name: one for name, one in self.topics.items() if rights.may(Privilege.READ, topic_resource(name))},
            queries=[one for one in self.queries if one.name in plans],
            views=[one for one in self.views if one["name"] in sees],
            sources={name: source for name, source in self.sources.items() if name in sees},
            broken={},
            plans=plans,
        )

    @property
    def rate_in(self) -> float:
        """Records per second from outside: into topics that no query writes."""
        written_topics = {query.topic for query in self.queries}
        return sum(topic.rate for topic in self.topics.values() if topic.name not in written_topics)


class SharedRequest(Protocol):
    """A request that several pages repeat. Equal requests with equal rights share one answer.

    `work` is its class: PULL if it reads rows, which is charged to the quotas of the user who asks first.
    """

    work: ClassVar[WorkClass]

    def stamp(self, context: RequestContext) -> object:
        """A version of the answer: while it is equal, so is the answer. None if there is no such version."""
        ...

    def answer(self, context: RequestContext) -> Any: ...


class SharedRequestCache:
    """Caches one answer per request for a second, for all pages, and until its stamp changes.

    A slow answer is computed less often, so that a chart cannot keep the server from its work.
    """

    def __init__(self) -> None:
        self._turns: dict[Any, asyncio.Lock] = {}
        self._known: dict[Any, tuple[float, object, Any]] = {}

    async def of(self, context: RequestContext, request: SharedRequest) -> Any:
        key = request, context.rights.is_admin or context.rights.grants
        async with self._turns.setdefault(key, asyncio.Lock()):
            again_at, stamp, answer = self._known.get(key, (-math.inf, None, None))
            if (begun := time.monotonic()) >= again_at:
                with context.charged(request.work) as charged:
                    stamp, answer = await charged.run(_answer, charged, request, stamp, answer)
                done = time.monotonic()
                self._known[key] = done + max(0.9 * POLL_SECONDS, _REST * (done - begun)), stamp, answer
                self._forget()
            return answer

    def _forget(self) -> None:
        """Evict answers that were not requested for some time."""
        old = time.monotonic() - _CACHE_SECONDS
        for key in [one for one, (again_at, _, _) in self._known.items() if again_at < old]:
            del self._known[key]
            self._turns.pop(key, None)


def _answer(context: RequestContext, request: SharedRequest, stamp: object, answer: Any) -> tuple[object, Any]:
    """The stamp is taken before the answer: a change in between is found by the next poll."""
    now = request.stamp(context)
    return (stamp, answer) if now is not None and now == stamp else (now, request.answer(context))


class SnapshotPoller:
    def __init__(self, context: RequestContext) -> None:
        self._context = context.with_rights(ALL_RIGHTS, WorkClass.CONSOLE)
        self._turn = asyncio.Lock()
        self._courses: dict[str, MetricsWindow] = {}
        self._moment: ServerSnapshot | None = None
        self.answers = SharedRequestCache()

    async def snapshot(self) -> ServerSnapshot:
        """The latest snapshot, at most about a second old."""
        async with self._turn:
            if self._moment is None or time.monotonic() - self._moment.at >= 0.9 * POLL_SECONDS:
                self._moment = await self._context.run(self._take_snapshot)
            return self._moment

    def _take_snapshot(self) -> ServerSnapshot:
        at, node = time.monotonic(), self._context.node
        topics: dict[str, TopicSnapshot] = {}
        for name, bounds in self._context.bounds().items():
            end = sum(one.end for one in bounds.values())
            record_count = end - sum(one.start for one in bounds.values())
            course = self._courses.setdefault(name, MetricsWindow(deque([(at, end)])))
            topics[name] = TopicSnapshot(name, len(bounds), record_count, max(0.0, course.rate(at, end)), end)
        for deleted in self._courses.keys() - topics.keys():
            del self._courses[deleted]
        broken = {number: str(error) for number, error in node.broken.items()}
        plans = {name: one.query for name, one in list(node.supervisor.queries.items())}
        queries = query_statuses(node, self._context.sampler)
        return ServerSnapshot(at, topics, queries, view_statuses(node), dict(node.catalog.sources), broken, plans)
