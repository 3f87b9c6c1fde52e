"""Routes of all nouns, how requests are read, answers and refusals written.

routes = [*api_routes(site), ...]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, WebSocketRoute
from starlette.routing import Route as Endpoint
from starlette.websockets import WebSocket

from headrace.errors import HeadraceError, UnknownPath
from headrace.serve.api import (
    alerts,
    apps,
    boards,
    groups,
    letters,
    metrics,
    people,
    queries,
    records,
    searching,
    statements,
    tails,
    topics,
    views,
    watching,
)
from headrace.serve.api.openapi import openapi
from headrace.serve.api.parameters import BODY, HEADER, PATH, PAYLOAD, QUERY, Payload, parameters_of, read
from headrace.serve.api.refusals import as_ours, headers_of, refusal, status_of
from headrace.serve.api.route import Be, May, Plain, Route
from headrace.serve.api.senders import check_code_from
from headrace.serve.api.site import Site
from headrace.serve.authentication import noted, rights_of
from headrace.serve.bodies import body_of, document

PREFIX = "/api/v1"
ROUTES: tuple[Route, ...] = (
    *topics.ROUTES,
    *records.ROUTES,
    *searching.ROUTES,
    *tails.ROUTES,
    *groups.ROUTES,
    *statements.ROUTES,
    *apps.ROUTES,
    *queries.ROUTES,
    *views.ROUTES,
    *boards.ROUTES,
    *watching.ROUTES,
    *letters.ROUTES,
    *alerts.ROUTES,
    *people.ROUTES,
)


def api_routes(site: Site) -> list[BaseRoute]:
    """To be set before or beside the routes of others."""
    inner = Starlette(routes=_routes(site), exception_handlers={HTTPException: _elsewhere, Exception: _failed})
    return [Mount(PREFIX, inner), _endpoint(site, [metrics.ROUTE])]


def _routes(site: Site) -> list[BaseRoute]:
    by_path: dict[str, list[Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, []).append(route)

    async def live(socket: WebSocket) -> None:
        await tails.tail_socket(site.by(rights_of(socket)), socket)

    async def watched(socket: WebSocket) -> None:
        await watching.watch_socket(site.by(rights_of(socket)), socket)

    async def described(request: Request) -> Response:
        return Response(orjson.dumps(openapi(ROUTES, PREFIX)), media_type="application/json")

    return [
        Endpoint("/openapi.json", described, methods=["GET"]),
        *(_endpoint(site, same) for same in by_path.values()),
        WebSocketRoute(tails.PATH_OF_TAILS, live),
        WebSocketRoute(watching.PATH_OF_WATCHING, watched),
    ]


def _endpoint(site: Site, routes: list[Route]) -> Endpoint:
    """All methods of one path."""
    by_method = {route.method: route for route in routes}

    async def endpoint(request: Request) -> Response:
        route = by_method["GET" if request.method == "HEAD" else request.method]
        try:
            return await _answered(site, route, request)
        except HeadraceError as error:
            await noted(site.node.guard, request, error)
            return refused(error)

    return Endpoint(routes[0].path, endpoint, methods=list(by_method))


async def _answered(site: Site, route: Route, request: Request) -> Response:
    if route.is_code:
        check_code_from(request, site.node.settings)
    site = site.by(rights_of(request))
    if isinstance(route.needs, Be):  # before a body is read
        route.needs.check(site.rights, None)
    with site.room.share() as take:
        given = () if route.parameters is None else (await _asked(route, route.parameters, request, take),)
        if isinstance(route.needs, May):
            route.needs.check(site.rights, *given)
        if route.is_live:
            return await route.do(site, *given, request)
        return _response(await run_in_threadpool(route.do, site, *given), route.status)


async def _asked(route: Route, kind: type, request: Request, take: Callable[[int], None]) -> Any:
    wanted = {parameter.place for parameter in parameters_of(kind)}
    content = await body_of(request, route.most, take) if wanted & {BODY, PAYLOAD} else b""
    places: dict[str, Mapping[str, Any]] = {
        PATH: request.path_params,
        QUERY: request.query_params,
        HEADER: request.headers,
        BODY: document(content) if BODY in wanted and content else {},
    }
    return read(kind, places, Payload(content, request.headers.get("content-type", "")))


# -- answers --------------------------------------------------------------------------------------------------------


def _response(answer: Any, status: int) -> Response:
    if isinstance(answer, Plain):
        return Response(answer.content, status, dict(answer.headers), answer.type)
    if answer is None:
        return Response(status_code=204)
    return _json(answer, status)


def _json(answer: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    content = orjson.dumps(answer, option=orjson.OPT_NON_STR_KEYS, default=_plain)
    return Response(content, status, headers, "application/json")


def _plain(value: Any) -> Any:
    """Sizes are numbers; what else has no form in JSON is told as text."""
    return int(value) if isinstance(value, int) else str(value)


def refused(error: HeadraceError) -> Response:
    status = status_of(error)
    more = getattr(error, "done", None)
    return _json({**refusal(error), **({} if more is None else {"done": more})}, status, headers_of(status, error))


async def _elsewhere(request: Request, error: Exception) -> Response:
    """No such path, or not for that method."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path} leads nowhere"
    unknown = UnknownPath(what, fix=f"GET {PREFIX}/openapi.json tells what there is")
    return _json(refusal(unknown, error.status_code), error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return refused(as_ours(error))
