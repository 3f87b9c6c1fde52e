"""Opens a one-time link: logs the browser in, and redirects, so that the key stays in no address bar and no Referer."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.access.client_key import client_key
from headrace.access.principal import Principal
from headrace.serve import browser_sessions
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.caller import client_address
from headrace.serve.console.urls import LOGIN_PATH, PREFIX

_PAGE = re.compile(rf"{PREFIX}/[\w/.%~-]*", re.ASCII)
_NO_STORE = {"cache-control": "no-store"}


async def open_link(context: RequestContext, request: Request) -> Response:
    if request.method != "GET":  # a HEAD is no visit
        return Response(status_code=405, headers={"allow": "GET"})
    guard = context.node.guard
    address = client_address(request.scope)

    def use() -> Principal | None:
        if (principal := guard.links.use(request.query_params.get("key", ""))) is not None:
            guard.audit.note("log-in", principal.name, address=address, by="link")
        return principal

    principal = await context.admission.run(WorkClass.AUTHENTICATION, client_key(address), use)
    if principal is None:
        return RedirectResponse(f"{LOGIN_PATH}?link=used", 303, _NO_STORE)
    page = request.query_params.get("next", "")
    answer = RedirectResponse(page if _PAGE.fullmatch(page) else f"{PREFIX}/", 303, _NO_STORE)
    cookie, _ = browser_sessions.start_session(guard, principal)
    browser_sessions.set_cookie(answer, request, guard, cookie)
    return answer
