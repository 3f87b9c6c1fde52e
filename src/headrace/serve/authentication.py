"""Authenticates requests: determines the principal once, before routing, from the request's credentials.

Credentials are a token (`Authorization: Bearer`), a name and a password (`Basic`, which ksqlDB's clients send), or a
session cookie. The secret of the data folder is a token, and the password of the user `local`. Without credentials, a
request from this machine is `anonymous` if `auth.mode` is `local`: its address makes nobody an admin. Any other request
without credentials reaches only the public paths. Invalid credentials are refused. A long-running response is cut off
when its credentials become invalid.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response

from headrace.access.client_key import client_key
from headrace.access.guard import Guard
from headrace.access.principal import ANONYMOUS, LOCAL, NOBODY, Principal
from headrace.errors import CsrfMissing, HeadraceError, NotAuthenticated
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api import errors as api
from headrace.serve.caller import (
    CSRF,
    CSRF_PARAMETER,
    RequestCredentials,
    client_address,
    is_local_request,
    session_cookie,
)
from headrace.serve.console import urls
from headrace.serve.ksql import errors as ksql

Run = Callable[..., Awaitable[Principal]]
"""How credentials are verified: `run` or, during a response, `run_started` of `Admission`."""
_OUR_PATHS = ("/api/", "/metrics")
_SAFE = ("GET", "HEAD", "OPTIONS")


class AuthenticationMiddleware:
    """Authenticates requests to all interfaces; `open_to_all` are pairs of method and path."""

    def __init__(self, app: Any, guard: Guard, admission: Admission, open_to_all: Collection[tuple[str, str]]) -> None:
        self._app = app
        self._admission = admission
        self._guard = guard
        self._open = frozenset(open_to_all)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        credentials = RequestCredentials(scope)
        try:
            principal = await self._principal(scope, credentials, self._admission.run)
            if principal is NOBODY and not self._is_open(scope):
                raise NotAuthenticated(
                    "credentials are missing or invalid", fix="send a token: Authorization: Bearer ..."
                )
        except HeadraceError as error:
            await self._note(error, scope, credentials)
            await refusal(error, scope, credentials)(scope, receive, send)
            return
        scope["rights"] = self._guard.rights(principal)
        if principal in (LOCAL, ANONYMOUS):  # their rights do not change
            await self._app(scope, receive, send)
            return
        counts = self._while_it_counts(scope, credentials)
        await self._app(scope, _receiving(receive, counts), _sending(send, counts))

    def _is_open(self, scope: Any) -> bool:
        return (scope.get("method", "GET"), scope["path"]) in self._open

    # -- the principal ----------------------------------------------------------------------------------------------

    async def _principal(self, scope: Any, credentials: RequestCredentials, run: Run) -> Principal:
        if (header := credentials.get(b"authorization")) is not None:
            return await self._by_header(header, scope, run)
        cookie = session_cookie(credentials)
        if cookie is not None and (login := self._guard.by_session(cookie)) is not None:
            principal, session = login
            if _changes(scope) and not session.allows(_csrf_token(scope, credentials)):
                if self._is_open(scope):  # such as another log-in
                    return NOBODY
                raise CsrfMissing(
                    "the request changes something, but lacks the session's CSRF token",
                    fix=f"send the token that POST /api/v1/session returned as {CSRF}",
                )
            if scope["type"] == "websocket" and credentials.get(b"origin") is None:
                raise CsrfMissing(
                    "a WebSocket with a session cookie requires the header Origin",
                    fix="send a token instead of a cookie",
                )
            return principal
        return ANONYMOUS if not self._guard.is_required and is_local_request(scope, credentials) else NOBODY

    async def _by_header(self, header: str, scope: Any, run: Run) -> Principal:
        kind, _, value = header.strip().partition(" ")
        value = value.strip()
        if kind.lower() == "bearer":
            if self._guard.is_local_secret(value):
                return LOCAL
            if (claims := self._guard.tokens.known(value)) is not None:
                return self._guard.by_token(value, claims)
            return await _verified(run, scope, self._guard.by_token, value)
        if kind.lower() == "basic":
            name, password = _basic(value)
            return await _verified(run, scope, self._guard.by_password, name, password, client_address(scope))
        raise NotAuthenticated(
            f'"{kind[:20]}" is not a supported authentication scheme', fix="send Bearer with a token, or Basic"
        )

    async def _note(self, error: HeadraceError, scope: Any, credentials: RequestCredentials) -> None:
        """Record refused tokens in the audit log; wrong passwords are recorded where they are checked."""
        header = credentials.get(b"authorization") or ""
        if isinstance(error, NotAuthenticated) and header[:6].lower() == "bearer":
            address = client_address(scope)
            note = partial(self._guard.audit.note_once, "token-refused", NOBODY.name, address=address, what=error.what)
            await self._admission.run_started(WorkClass.AUTHENTICATION, client_key(address), note)

    # -- long-running responses -------------------------------------------------------------------------------------

    def _while_it_counts(self, scope: Any, credentials: RequestCredentials) -> Revalidate:
        """Check the credentials again during a response: rights can change, tokens expire and users log out."""
        guard, rights, state = self._guard, scope["rights"], self._guard.users.state
        is_known = _is_known(guard, credentials)

        async def counts() -> None:
            nonlocal state
            if guard.users.state is state and is_known():
                return
            now = guard.users.state
            principal = await self._principal(scope, credentials, self._admission.run_started)
            if not now.rights(principal).same(rights):
                raise NotAuthenticated(
                    "the privileges have changed since the connection was opened", fix="connect again"
                )
            state = now

        return counts


Revalidate = Callable[[], Awaitable[None]]
"""Raises unless the credentials are still valid with the same rights."""


def _sending(send: Any, counts: Revalidate) -> Any:
    async def sending(message: Any) -> None:
        if message.get("more_body") or message["type"] == "websocket.send":
            await counts()
        await send(message)

    return sending


def _receiving(receive: Any, counts: Revalidate) -> Any:
    """Ignore messages of a WebSocket whose credentials have become invalid."""

    async def receiving() -> Any:
        message = await receive()
        if message["type"] == "websocket.receive":
            try:
                await counts()
            except HeadraceError:
                return {"type": "websocket.disconnect", "code": 1008}
        return message

    return receiving


def _is_known(guard: Guard, credentials: RequestCredentials) -> Callable[[], bool]:
    """Whether the credentials need not be checked again."""
    kind, _, token = (credentials.get(b"authorization") or "").strip().partition(" ")
    if kind.lower() == "bearer":
        return lambda: guard.tokens.known(token.strip()) is not None
    cookie = None if kind else session_cookie(credentials)
    return (lambda: True) if cookie is None else (lambda: guard.sessions.find(cookie) is not None)


async def _verified(run: Run, scope: Any, verify: Callable[..., Principal], *credentials: str) -> Principal:
    """Verify credentials on a thread. Who sends them is not known yet, so addresses take turns."""
    return await run(WorkClass.AUTHENTICATION, client_key(client_address(scope)), verify, *credentials)


def _changes(scope: Any) -> bool:
    """Whether a request may change something, as everything may that a page of the console sends on its WebSocket."""
    return scope["method"] not in _SAFE if scope["type"] == "http" else urls.is_page(scope["path"])


def _csrf_token(scope: Any, credentials: RequestCredentials) -> str | None:
    if scope["type"] == "websocket":
        return QueryParams(scope["query_string"]).get(CSRF_PARAMETER)
    return credentials.get(CSRF.encode())


def _basic(value: str) -> tuple[str, str]:
    try:
        name, separator, password = base64.b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        separator = name = password = ""
    if not separator:
        raise NotAuthenticated("the user name and password cannot be decoded", fix="send base64 of NAME:PASSWORD")
    return name, password


def refusal(error: HeadraceError, scope: Any, credentials: RequestCredentials | None = None) -> Response:
    """An error in the format of the called API. Browsers are not offered Basic, as they would show a log-in dialog."""
    if isinstance(error, NotAuthenticated) and scope.get("method") == "GET" and urls.is_page(scope["path"]):
        return RedirectResponse(urls.login_redirect(scope["path"]), 303)
    if scope["path"].startswith(_OUR_PATHS):
        status, document = api.http_status(error), api.error_document(error)
    else:
        status, document = ksql.error_document(error)
    headers = api.error_headers(status, error)
    if status == 401 and credentials is not None and credentials.get(b"sec-fetch-mode") is not None:
        headers["www-authenticate"] = 'Bearer realm="headrace"'
    return Response(json.dumps(document), status, headers, "application/json")
