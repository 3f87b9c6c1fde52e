"""One person's place at the dashboard: what the HTTP interface answers is asked here, by the same functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from headrace.access.decision import Rights
from headrace.serve.api.app import ROUTES
from headrace.serve.api.boards import add_panel, remove_panel
from headrace.serve.api.route import Be
from headrace.serve.api.site import Site
from headrace.serve.authentication import rights_of, rights_still
from headrace.serve.dashboard.pulse import Moment, Pulse, Question

_NEEDS = {route.do: route.needs for route in ROUTES} | {add_panel: Be.KNOWN, remove_panel: Be.KNOWN}
SCOPE = "headrace.dashboard"
"""Where a request finds what it is about: the site, and its pulse."""


class Desk:
    def __init__(self, request: Request) -> None:
        self.request = request
        site, pulse = request.scope[SCOPE]
        self._site: Site = site
        self._pulse: Pulse = pulse
        self.who = rights_of(request).who

    @property
    def rights(self) -> Rights:
        """Those of today: a page may be open for long."""
        return rights_still(self._site.node.guard, self.request)

    @property
    def site(self) -> Site:
        return self._site.by(self.rights)

    @property
    def prefers_dark(self) -> bool | None:
        """None: as the browser does."""
        return {"dark": True, "light": False}.get(self.request.cookies.get("headrace-colours", ""))

    async def now(self) -> Moment:
        """What this person may see of it."""
        return (await self._pulse.now()).seen_by(self.rights)

    async def share(self, asked: Question) -> Any:
        """An answer that is worked out once for all who ask the same and see the same."""
        return await self._pulse.answers.of(self.site, asked)

    async def ask(self, do: Callable[..., Any], *given: Any) -> Any:
        """What a function of a route gives, if one may ask; on a thread, as it may wait for the log."""
        site = self.site
        _NEEDS[do].check(site.rights, *(given or (None,)))
        return await run_in_threadpool(do, site, *given)
