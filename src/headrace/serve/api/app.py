"""The routes of all resources: parses requests, writes responses and errors.

routes = [*api_routes(context), ...]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, WebSocketRoute
from starlette.routing import Route as Endpoint
from starlette.websockets import WebSocket

from headrace.control.statements.permissions import redact_errors
from headrace.errors import CodeRefused, HeadraceError, UnknownPath
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api import metrics
from headrace.serve.api.errors import error_document, error_headers, http_status, to_headrace_error
from headrace.serve.api.openapi import openapi
from headrace.serve.api.parameters import BODY, HEADER, PATH, PAYLOAD, QUERY, Payload, parameters_of, read_parameters
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources import (
    alerts,
    apps,
    dashboards,
    dead_letters,
    groups,
    notifiers,
    processes,
    queries,
    record_search,
    records,
    statements,
    topics,
    users,
    views,
)
from headrace.serve.api.route import AccessLevel, RawResponse, RequiredPrivilege, Route
from headrace.serve.api.streaming import push_query, topic_tail
from headrace.serve.caller import audit_refusal
from headrace.serve.http.request_body import parse_object, read_body

PREFIX = "/api/v1"
ROUTES: tuple[Route, ...] = (
    *topics.ROUTES,
    *records.ROUTES,
    *record_search.ROUTES,
    *topic_tail.ROUTES,
    *groups.ROUTES,
    *statements.ROUTES,
    *apps.ROUTES,
    *queries.ROUTES,
    *processes.ROUTES,
    *views.ROUTES,
    *dashboards.ROUTES,
    *push_query.ROUTES,
    *dead_letters.ROUTES,
    *alerts.ROUTES,
    *notifiers.ROUTES,
    *users.ROUTES,
)


def api_routes(context: RequestContext) -> list[BaseRoute]:
    """The routes of the API. They must come before, or next to, other routes."""
    inner = Starlette(routes=_routes(context), exception_handlers={HTTPException: _elsewhere, Exception: _failed})
    return [Mount(PREFIX, inner), _endpoint(context, [metrics.ROUTE])]


def _routes(context: RequestContext) -> list[BaseRoute]:
    by_path: dict[str, list[Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, []).append(route)

    async def live(socket: WebSocket) -> None:
        await topic_tail.tail_socket(context.for_request(socket, WorkClass.PUSH), socket)

    async def watched(socket: WebSocket) -> None:
        await push_query.watch_query_socket(context.for_request(socket, WorkClass.PUSH), socket)

    async def described(request: Request) -> Response:
        return Response(orjson.dumps(openapi(ROUTES, PREFIX)), media_type="application/json")

    return [
        Endpoint("/openapi.json", described, methods=["GET"]),
        *(_endpoint(context, same) for same in by_path.values()),
        WebSocketRoute(topic_tail.TAIL_PATH, live),
        WebSocketRoute(push_query.WATCH_PATH, watched),
    ]


def _endpoint(context: RequestContext, routes: list[Route]) -> Endpoint:
    """One endpoint for all methods of a path."""
    by_method = {route.method: route for route in routes}

    async def endpoint(request: Request) -> Response:
        route = by_method["GET" if request.method == "HEAD" else request.method]
        try:
            return await _respond(context, route, request)
        except HeadraceError as error:
            await audit_refusal(context.node.guard, context.admission, request, error)
            return error_response(error)

    return Endpoint(routes[0].path, endpoint, methods=list(by_method))


async def _respond(context: RequestContext, route: Route, request: Request) -> Response:
    if route.is_code and not context.node.settings.server.accept_code:
        raise CodeRefused("this server does not accept code", fix="set server.accept_code to true on the server")
    context = context.for_request(request, route.work)
    if isinstance(route.needs, AccessLevel):  # before the body is read
        route.needs.check(context.rights, None)
    context.admission.check(route.work, context.share)
    with redact_errors(context.rights), context.budget.share(context.share) as take:
        arguments = (
            () if route.parameters is None else (await _read_parameters(route, route.parameters, request, take),)
        )
        if isinstance(route.needs, RequiredPrivilege):
            route.needs.check(context.rights, *arguments)
        if route.is_live:
            return await route.do(context, *arguments, request)
        return _response(await context.run(route.do, context, *arguments), route.status)


async def _read_parameters(route: Route, kind: type, request: Request, take: Callable[[int], None]) -> Any:
    used_places = {parameter.place for parameter in parameters_of(kind)}
    content = await read_body(request, route.most, take) if used_places & {BODY, PAYLOAD} else b""
    places: dict[str, Mapping[str, Any]] = {
        PATH: request.path_params,
        QUERY: request.query_params,
        HEADER: request.headers,
        BODY: parse_object(content) if BODY in used_places and content else {},
    }
    return read_parameters(kind, places, Payload(content, request.headers.get("content-type", "")))


# -- responses ------------------------------------------------------------------------------------------------------


def _response(answer: Any, status: int) -> Response:
    if isinstance(answer, RawResponse):
        return Response(answer.content, status, dict(answer.headers), answer.type)
    if answer is None:
        return Response(status_code=204)
    return _json(answer, status)


def _json(answer: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    content = orjson.dumps(answer, option=orjson.OPT_NON_STR_KEYS, default=_plain)
    return Response(content, status, headers, "application/json")


def _plain(value: Any) -> Any:
    """JSON fallback: a size becomes a number, any other value text."""
    return int(value) if isinstance(value, int) else str(value)


def error_response(error: HeadraceError) -> Response:
    status = http_status(error)
    more = getattr(error, "done", None)
    return _json(
        {**error_document(error), **({} if more is None else {"done": more})}, status, error_headers(status, error)
    )


async def _elsewhere(request: Request, error: Exception) -> Response:
    """The response for an unknown path, or for a method that the path does not have."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path} does not exist"
    unknown = UnknownPath(what, fix=f"GET {PREFIX}/openapi.json describes all endpoints")
    return _json(error_document(unknown, error.status_code), error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return error_response(to_headrace_error(error))
