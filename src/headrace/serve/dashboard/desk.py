"""One person's place at the dashboard: what the HTTP interface answers is asked here, by the same functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from headrace.serve.api.site import Site
from headrace.serve.dashboard.pulse import Moment, Pulse

SCOPE = "headrace.dashboard"
"""Where a request finds what it is about: the site, and its pulse."""


class Desk:
    def __init__(self, request: Request) -> None:
        self.request = request
        site, pulse = request.scope[SCOPE]
        self.site: Site = site
        self._pulse: Pulse = pulse

    @property
    def prefers_dark(self) -> bool | None:
        """None: as the browser does."""
        return {"dark": True, "light": False}.get(self.request.cookies.get("headrace-colours", ""))

    async def now(self) -> Moment:
        return await self._pulse.now()

    async def ask(self, do: Callable[..., Any], *given: Any) -> Any:
        """What a function of a route gives; on a thread, as it may wait for the log."""
        return await run_in_threadpool(do, self.site, *given)
