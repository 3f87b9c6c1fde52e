"""All that a server offers over HTTP: resources of our own, ksqlDB's interface, and the dashboard.

A web page that another server sent must not speak to this one: a request that names another origin is refused.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import HTTPConnection

from headrace.control.node import Node
from headrace.errors import ForeignOrigin
from headrace.serve.api.app import api_routes, refused
from headrace.serve.api.site import Site
from headrace.serve.ksql.app import ksql_routes


def application(node: Node, *, dashboard: bool = False) -> Any:
    site = Site(node)
    routes, lifespan = [*api_routes(site), *ksql_routes(node)], None
    if dashboard:
        from headrace.serve.dashboard.mount import Dashboard  # takes a second

        board = Dashboard(site)
        routes, lifespan = [*routes, *board.routes], board.lifespan
    return Guarded(Starlette(routes=routes, lifespan=lifespan))


class Guarded:
    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket") and _is_foreign(HTTPConnection(scope)):
            error = ForeignOrigin("a web page of another server sent the request", fix="ask from a program")
            await refused(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _is_foreign(connection: HTTPConnection) -> bool:
    origin = connection.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != connection.headers.get("host")
