"""The context of a request: the node, the server's shared state, and the rights of the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any, ParamSpec, TypeVar

from starlette.requests import HTTPConnection

from headrace.access.authorization import NO_RIGHTS, Rights
from headrace.contracts import Bounds, Log
from headrace.control.node import Node
from headrace.control.queries.metrics import MetricsSampler
from headrace.errors import UnknownTopic
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.quotas import USAGE, Quotas, user_quota
from headrace.serve.admission.work_class import WorkClass, work_limits
from headrace.serve.api.log_io.dashboard_store import dashboard_store
from headrace.serve.api.log_io.dead_letter_status import DeadLetterResolutions
from headrace.serve.api.log_io.idempotent_producers import IdempotentProducers
from headrace.serve.api.log_io.topic_owners import TopicOwners
from headrace.serve.api.streaming.append_signal import AppendSignal
from headrace.serve.api.streaming.page_cache import TailPageCache
from headrace.serve.caller import request_rights, request_share
from headrace.serve.http.request_body import BodyBudget
from headrace.settings.sections import QuotaSettings

Params = ParamSpec("Params")
Result = TypeVar("Result")
_HELD = 256 << 20  # bytes of the bodies of all requests in progress


class RequestContext:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.producers = IdempotentProducers(node.log)
        self.dashboards = dashboard_store(node.log)
        self.topic_owners = TopicOwners(node.log)
        self.resolutions = DeadLetterResolutions(node.log)
        self.append_signal = AppendSignal(node.log)
        self.admission = Admission(
            work_limits(node.settings.server),
            {WorkClass.PULL: self._query_quota, WorkClass.HEAVY_PULL: self._query_quota},
        )
        self.quotas = Quotas(self._quota)
        self.pages = TailPageCache(node.log, self.admission)
        self.sampler = MetricsSampler()
        self.budget = BodyBudget(_HELD)
        self.rights = NO_RIGHTS
        self.share = NO_RIGHTS.principal.name
        """Whose share of the server's limits the request uses."""
        self.work = WorkClass.ADMINISTRATION

    def _quota(self, principal: str) -> QuotaSettings:
        """The current quota of a principal: settings can be reloaded, and an admin can set it for one user."""
        node = self.node
        return user_quota(node.settings.quota, node.guard.users.state.quotas.get(principal))

    def _query_quota(self, principal: str) -> int:
        return self._quota(principal).queries

    def with_rights(self, rights: Rights, work: WorkClass | None = None, share: str | None = None) -> RequestContext:
        """The same context with a caller's rights, for work of a class; `share` is the user's unless it is given."""
        context = copy(self)
        context.rights, context.work, context.share = rights, work or self.work, share or rights.principal.name
        return context

    def for_request(self, connection: HTTPConnection, work: WorkClass) -> RequestContext:
        """The same context for a request."""
        return self.with_rights(request_rights(connection), work, request_share(connection))

    @contextmanager
    def charged(self, work: WorkClass) -> Iterator[RequestContext]:
        """This context for work of a class that no request stands for, charged to the caller's quotas.

        The console's own work is charged to nobody.
        """
        usage = None if work is WorkClass.CONSOLE else self.quotas.usage(self.share)
        if usage is not None:
            usage.begin_request()
        before = USAGE.set(usage)
        try:
            yield self.with_rights(self.rights, work, self.share)
        finally:
            USAGE.reset(before)

    async def run(self, do: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs) -> Result:
        """Call a blocking function on a thread of the request's class of work, when it is the caller's turn."""
        return await self.admission.run(self.work, self.share, do, *args, **kwargs)

    def audit(self, action: str, **details: Any) -> None:
        """Write to the audit log, before the action is executed."""
        self.node.guard.audit.note(action, self.rights.principal.name, **details)

    @property
    def log(self) -> Log:
        return self.node.log

    def bounds(self) -> dict[str, dict[int, Bounds]]:
        """The offset bounds of all topics."""
        bounds: dict[str, dict[int, Bounds]] = {}
        for topic in self.log.topics():
            with suppress(UnknownTopic):  # deleted meanwhile
                bounds[topic.name] = self.log.bounds(topic.name)
        return bounds
