"""Runs blocking work of requests on threads, by class of work: `await admission.run(WorkClass.PULL, principal, do)`.

Nothing else in the server may run on a thread pool: work outside a class could use up the threads of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
from anyio import CapacityLimiter

from headrace.background_work import give_way
from headrace.serve.admission.fair_queue import FairQueue
from headrace.serve.admission.work_class import WorkClass, WorkLimits

Params = ParamSpec("Params")
Result = TypeVar("Result")
_RELEASING = 4


class Admission:
    """The queues of a server. Event loop only."""

    def __init__(
        self, limits: Mapping[WorkClass, WorkLimits], quotas: Mapping[WorkClass, Callable[[str], int]] | None = None
    ) -> None:
        """`quotas` are how much work of a class a principal may have."""
        self.queues = {work: FairQueue(work, limits[work]) for work in WorkClass}
        for work, quota_of in (quotas or {}).items():
            self.queues[work].quota_of = quota_of
        self._free = CapacityLimiter(_RELEASING)
        self._threads = {work: CapacityLimiter(limits[work].running) for work in WorkClass}

    def check(self, work: WorkClass, principal: str) -> None:
        """Refuse work that does not fit, before the request's body is read."""
        self.queues[work].check(principal)

    async def run(
        self,
        work: WorkClass,
        principal: str,
        do: Callable[Params, Result],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Result:
        """Call a function on a thread of the class. Raises ServerBusy or TooManyRequests if it does not fit."""
        async with self.queues[work].slot(principal):
            return await anyio.to_thread.run_sync(_given_way, partial(do, *args, **kwargs), limiter=self._threads[work])

    async def run_started(
        self,
        work: WorkClass,
        principal: str,
        do: Callable[Params, Result],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Result:
        """The same for a response that has started: it waits for its turn, and is not refused."""
        async with self.queues[work].slot(principal, started=True):
            return await anyio.to_thread.run_sync(_given_way, partial(do, *args, **kwargs), limiter=self._threads[work])

    async def release(self, do: Callable[[], None]) -> None:
        """Call a function that only gives something back, such as a snapshot: it waits for no work."""
        await anyio.to_thread.run_sync(do, limiter=self._free)


def _given_way(do: Callable[[], Result]) -> Result:
    give_way()
    return do()
