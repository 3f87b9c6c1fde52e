"""Opens a one-time link: logs the browser in with a page that replaces itself, so that no address bar has the key.

The page gives the browser the session's CSRF token.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headrace.access.client_key import client_key
from headrace.access.principal import Principal
from headrace.serve import browser_sessions
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.caller import client_address
from headrace.serve.console.urls import LOGIN_PATH, PREFIX, STATIC_PAGE_POLICY

_PAGE = re.compile(rf"{PREFIX}/[\w/.%~-]*", re.ASCII)
_NO_STORE = {"cache-control": "no-store"}
_LOGGED_IN = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>headrace</title>
    <link rel="icon" href="{prefix}/static/headrace.svg">
    <meta name="csrf" content="{csrf}">
    <meta name="next" content="{page}">
    <script defer src="{prefix}/static/open.js"></script>
  </head>
</html>
"""


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
    page = page if _PAGE.fullmatch(page) else f"{PREFIX}/"
    cookie, session = browser_sessions.start_session(guard, principal)
    text = _LOGGED_IN.format(csrf=session.csrf, page=page, prefix=PREFIX)
    answer = HTMLResponse(text, headers={**_NO_STORE, "content-security-policy": STATIC_PAGE_POLICY})
    browser_sessions.set_cookie(answer, request, guard, cookie)
    return answer
