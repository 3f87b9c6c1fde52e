"""The context of a page of the console: calls the functions of the HTTP API with the user's rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from headrace.access.authorization import Rights
from headrace.control.statements.permissions import redact_errors
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.app import ROUTES
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.dashboards import add_panel, remove_panel, share_dashboard
from headrace.serve.api.route import AccessLevel
from headrace.serve.caller import current_rights, request_rights
from headrace.serve.console.poller import ServerSnapshot, SharedRequest, SnapshotPoller

_NEEDS = {route.do: route.needs for route in ROUTES} | dict.fromkeys(
    (add_panel, remove_panel, share_dashboard), AccessLevel.KNOWN
)
SCOPE_KEY = "headrace.console"
"""Key in the request's scope for the request context and the poller."""


class PageContext:
    def __init__(self, request: Request) -> None:
        self.request = request
        server, poller = request.scope[SCOPE_KEY]
        self._server: RequestContext = server
        self._poller: SnapshotPoller = poller
        self.principal = request_rights(request).principal

    @property
    def rights(self) -> Rights:
        """The current rights: a page may be open for a long time."""
        return current_rights(self._server.node.guard, self.request)

    @property
    def api(self) -> RequestContext:
        return self._server.with_rights(self.rights, WorkClass.CONSOLE)

    @property
    def prefers_dark(self) -> bool | None:
        """None: the browser's preference."""
        return {"dark": True, "light": False}.get(self.request.cookies.get("headrace-colours", ""))

    async def snapshot(self) -> ServerSnapshot:
        """The latest snapshot, limited to what the user may see."""
        return (await self._poller.snapshot()).seen_by(self.rights)

    async def cached(self, params: SharedRequest) -> Any:
        """A response that is computed once for all users with the same request and the same rights."""
        with redact_errors(self.rights):
            return await self._poller.answers.of(self.api, params)

    async def call(self, do: Callable[..., Any], *args: Any) -> Any:
        """Call the function of a route, if the user may; on a thread, since it may block on the log."""
        api = self.api
        _NEEDS[do].check(api.rights, *(args or (None,)))
        with redact_errors(api.rights):
            return await api.run(do, api, *args)
