"""All that a server offers over HTTP: resources of our own, ksqlDB's interface, and the dashboard.

A web page that another server sent must not speak to this one: a request that names another origin is refused. Nor may
a browser take an answer for a page that does something, or show it inside of another: headers say so, unless the
answer has its own.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import HTTPConnection

from headrace.control.node import Node
from headrace.errors import ForeignOrigin
from headrace.serve.api.app import PREFIX, ROUTES, api_routes, refused
from headrace.serve.api.route import Be
from headrace.serve.api.site import Site
from headrace.serve.authentication import Authenticated
from headrace.serve.dashboard import door
from headrace.serve.ksql.app import ksql_routes

OPEN_TO_ALL = (
    frozenset(
        [("GET", "/healthcheck"), *((one.method, PREFIX + one.path) for one in ROUTES if one.needs is Be.ANYBODY)]
    )
    | door.OPEN
)
_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_STARTS = ("http.response.start", "websocket.http.response.start")


def application(node: Node, *, dashboard: bool = False) -> Any:
    site = Site(node)
    routes, lifespan = [*api_routes(site), *ksql_routes(node, site.room)], None
    if dashboard:
        from headrace.serve.dashboard.mount import Dashboard  # takes a second

        board = Dashboard(site)
        routes, lifespan = [*routes, *board.routes], board.lifespan
    return Guarded(Authenticated(Starlette(routes=routes, lifespan=lifespan), node.guard, OPEN_TO_ALL))


class Guarded:
    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket") and _is_foreign(HTTPConnection(scope)):
            error = ForeignOrigin("a web page of another server sent the request", fix="ask from a program")
            await refused(error)(scope, receive, _with_headers(send))
        else:
            await self._app(scope, receive, _with_headers(send))


def _with_headers(send: Any) -> Any:
    async def sent(message: Any) -> None:
        if message["type"] in _STARTS:
            own = {name for name, _ in message.setdefault("headers", [])}
            message["headers"] = [*message["headers"], *(one for one in _HEADERS if one[0] not in own)]
        await send(message)

    return sent


def _is_foreign(connection: HTTPConnection) -> bool:
    origin = connection.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != connection.headers.get("host")
