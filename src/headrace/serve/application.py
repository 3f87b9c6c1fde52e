"""The server's HTTP application: the REST API, ksqlDB's API and the console.

A web page from another server must not call this one: requests with a foreign origin are refused. Security headers also
prevent a browser from running a response as a page, or from framing it, unless the response has its own headers.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import HTTPConnection

from headrace.control.node import Node
from headrace.errors import ForeignOrigin
from headrace.serve.admission.event_loop_share import EventLoopShare, EventLoopShareMiddleware
from headrace.serve.api.app import PREFIX, ROUTES, api_routes, error_response
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel
from headrace.serve.authentication import AuthenticationMiddleware
from headrace.serve.console import urls
from headrace.serve.ksql.app import ksql_routes
from headrace.serve.quota_middleware import QuotaMiddleware

PUBLIC_ROUTES = (
    frozenset(
        [
            ("GET", "/healthcheck"),
            *((one.method, PREFIX + one.path) for one in ROUTES if one.needs is AccessLevel.ANYBODY),
        ]
    )
    | urls.PUBLIC_PATHS
)
_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_STARTS = ("http.response.start", "websocket.http.response.start")


def application(node: Node, *, dashboard: bool = False) -> Any:
    node.guard.create_local_secret()
    context = RequestContext(node)
    routes, lifespan = [*api_routes(context), *ksql_routes(node, context.budget, context.admission)], None
    if dashboard:
        from headrace.serve.console.mount import Console  # the import takes a second

        board = Console(context)
        routes, lifespan = [*routes, *board.routes], board.lifespan
    return SecurityHeaders(
        AuthenticationMiddleware(
            EventLoopShareMiddleware(
                QuotaMiddleware(Starlette(routes=routes, lifespan=lifespan), context.quotas), EventLoopShare()
            ),
            node.guard,
            context.admission,
            PUBLIC_ROUTES,
        )
    )


class SecurityHeaders:
    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket") and _is_foreign(HTTPConnection(scope)):
            error = ForeignOrigin(
                "a web page from another origin sent the request", fix="send the request from a program"
            )
            await error_response(error)(scope, receive, _with_headers(send))
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
