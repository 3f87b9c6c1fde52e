"""Starts and ends the session of a browser: its cookie, which scripts cannot read and other sites do not send.

A browser sends a cookie to all ports of its host. So the cookie alone changes nothing: that takes the session's CSRF
token, too, which only the response to a log-in has, and which pages keep in the storage of their origin.
"""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from headrace.access.guard import Guard
from headrace.access.principal import Principal
from headrace.access.sessions import Session
from headrace.serve.caller import RequestCredentials, session_cookie, session_cookie_name

LINK_PATH = "/ui/open"


def login_link(key: str, page: str | None = None) -> str:
    """The path of a one-time link, which logs a browser in and opens a page of the console."""
    return f"{LINK_PATH}?{urlencode({'key': key} if page is None else {'key': key, 'next': page})}"


def start_session(guard: Guard, principal: Principal) -> tuple[str, Session]:
    """Returns the cookie's value and the session."""
    return guard.sessions.begin(principal, guard.settings.auth.session_ttl.total_seconds())


def set_cookie(answer: Response, request: Request, guard: Guard, cookie: str) -> None:
    _set(answer, request, cookie, int(guard.settings.auth.session_ttl.total_seconds()))


def end_session(answer: Response, request: Request, guard: Guard) -> None:
    if (cookie := session_cookie(RequestCredentials(request.scope))) is not None:
        guard.sessions.end(cookie)
    _set(answer, request, "", 0)


def _set(answer: Response, request: Request, value: str, life: int) -> None:
    credentials = RequestCredentials(request.scope)
    name, secure = session_cookie_name(credentials), credentials.is_secure
    answer.set_cookie(name, value, max_age=life, path="/", secure=secure, httponly=True, samesite="strict")
