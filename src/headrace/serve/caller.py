"""The caller of a request: the credentials in its headers, and the rights that authentication has found for them."""

from __future__ import annotations

from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.requests import HTTPConnection

from headrace.access.authorization import NO_RIGHTS, Rights
from headrace.access.client_key import client_key
from headrace.access.guard import Guard
from headrace.access.principal import ANONYMOUS, LOCAL, NOBODY
from headrace.access.tokens import is_loopback
from headrace.errors import CodeRefused, HeadraceError, NotAllowed, NotAuthenticated
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.http.trusted_proxies import PROXIED, PROXY_HEADERS

CSRF, CSRF_PARAMETER = "x-csrf-token", "csrf"
"""Where a request has the CSRF token of its session: a header or, for a WebSocket of a browser, a parameter."""
_COOKIE = "headrace_session"
_HEADERS = frozenset((b"authorization", b"cookie", b"host", b"origin", b"sec-fetch-mode", CSRF.encode()))


class RequestCredentials:
    """The headers of a request that matter for authentication, and whether it came through a proxy.

    It did if a trusted proxy has sent it, or if any header says so: what others forward must not seem to be local.
    """

    __slots__ = ("_headers", "is_secure", "proxied")

    def __init__(self, scope: Any) -> None:
        self._headers: dict[bytes, bytes] = {}
        self.is_secure = scope.get("scheme") in ("https", "wss")
        self.proxied = PROXIED in scope
        for name, value in scope["headers"]:
            if name in _HEADERS:
                self._headers[name] = value
            elif name in PROXY_HEADERS:
                self.proxied = True

    def get(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")


def is_local_request(scope: Any, credentials: RequestCredentials | None = None) -> bool:
    """Whether the client is on this machine. Proxied requests do not count."""
    client = scope.get("client")
    return client is not None and is_loopback(client[0]) and not (credentials or RequestCredentials(scope)).proxied


def client_address(scope: Any) -> str:
    """The address of a request's client, as far as it is known."""
    return str(scope["client"][0]) if scope.get("client") else ""


def request_share(connection: HTTPConnection) -> str:
    """Whose share of the server's limits a request uses: its user's or, without credentials, its client's."""
    principal = request_rights(connection).principal
    return client_key(client_address(connection.scope)) if principal is NOBODY else principal.name


def request_rights(connection: HTTPConnection) -> Rights:
    """The rights of the caller."""
    return connection.scope.get("rights", NO_RIGHTS)


async def audit_refusal(guard: Guard, admission: Admission, connection: HTTPConnection, error: HeadraceError) -> None:
    """Record a denial in the audit log."""
    if isinstance(error, NotAllowed | CodeRefused):
        principal = request_rights(connection).principal.name
        note = partial(guard.audit.note_once, "refused", principal, what=error.what)
        await admission.run_started(WorkClass.AUTHENTICATION, request_share(connection), note)


def current_rights(guard: Guard, connection: HTTPConnection) -> Rights:
    """The caller's current rights, for work that outlives the request; raises when the credentials become invalid."""
    rights = request_rights(connection)
    principal = rights.principal
    if principal in (LOCAL, ANONYMOUS):
        return rights
    if principal.credential == "session":
        login = guard.by_session(session_cookie(RequestCredentials(connection.scope)) or "")
        if login is None:
            raise NotAuthenticated("the session has ended", fix="log in again")
        return guard.rights(login[0])
    if principal.credential == "token":
        return guard.rights(guard.by_token(connection.headers["authorization"].split()[-1]))
    return guard.rights(guard.revalidate(principal))


def session_cookie_name(credentials: RequestCredentials) -> str:
    """The name of the cookie of a browser session.

    It has the server's port, because a browser has one cookie of a name for all ports of a host. With `__Host-` it
    accepts the cookie only from this host over TLS.
    """
    port = (credentials.get(b"host") or "").rpartition(":")[2]
    name = f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE
    return f"__Host-{name}" if credentials.is_secure else name


def session_cookie(credentials: RequestCredentials) -> str | None:
    """The cookie of a browser session, if the request has one."""
    header = credentials.get(b"cookie")
    if header is None or _COOKIE not in header:
        return None
    try:
        cookie = SimpleCookie(header).get(session_cookie_name(credentials))
    except CookieError:
        return None
    return None if cookie is None else cookie.value
