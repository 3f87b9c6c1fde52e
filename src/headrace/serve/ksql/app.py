"""The paths of ksqlDB's REST API.

Each row of `ROUTES` is one request, handled by a function from the node and the body to a JSON value. A node blocks on
its log, so it is called on other threads than the event loop's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.access.authorization import Rights
from headrace.control.node import PROGRAM_NAME, Node
from headrace.errors import HeadraceError, NotAllowed, UnknownCommand
from headrace.serve.caller import audit_refusal, request_rights
from headrace.serve.http.request_body import MAX_STATEMENTS_BYTES, BodyBudget, parse_object, read_body
from headrace.serve.ksql.entities import statement_entity
from headrace.serve.ksql.errors import error_document
from headrace.serve.ksql.insert_stream import insert_stream_endpoint
from headrace.serve.ksql.queries import QueryEndpoints
from headrace.serve.ksql.statement_request import StatementRequest

CONTENT_TYPE = "application/vnd.ksql.v1+json"
Body = Mapping[str, Any]
Answered = tuple[int, Any]


def ksql_routes(node: Node, budget: BodyBudget) -> list[Route]:
    """The routes over a node; bodies share the budget of all requests to the server."""
    endpoints = QueryEndpoints(node)
    handlers = {
        "/query": endpoints.query,
        "/query-stream": endpoints.query_stream,
        "/close-query": endpoints.close_query,
    }
    routes = [Route(path, _query_handler(node, budget, answer), methods=["POST"]) for path, answer in handlers.items()]
    inserts = Route("/inserts-stream", insert_stream_endpoint(node, budget), methods=["POST"])
    return [*(_route(node, budget, *row) for row in ROUTES), *routes, inserts]


# -- requests -------------------------------------------------------------------------------------------------------


def statements(node: Node, body: Body, rights: Rights) -> Answered:
    """POST /ksql: executes statements in order; those before an error keep their effect, and are listed in it."""
    text, properties, variables = StatementRequest.of(body, "ksql", "streamsProperties")
    done: list[Any] = []
    try:
        node.execute(text, properties, variables, rights=rights, on_done=done.append)
    except HeadraceError as error:
        if isinstance(error, NotAllowed):
            node.guard.audit.note_once("refused", rights.principal.name, what=error.what)
        return error_document(error, text, _entities(done))
    return 200, _entities(done)


def _entities(outcomes: list[Any]) -> list[Any]:
    return [entity for entity in map(statement_entity, outcomes) if entity is not None]


def status(node: Node, body: Body, rights: Rights) -> Answered:
    """GET /status: the status of the commands that created the existing sources. Dropped sources are not listed."""
    return 200, {"commandStatuses": dict.fromkeys(_commands(node, rights), "SUCCESS")}


def command(node: Node, body: Body, rights: Rights) -> Answered:
    """GET /status/{kind}/{name}/{action}: the status of one command."""
    if body["command"] not in _commands(node, rights):
        raise UnknownCommand(f"command {body['command']} does not exist", fix="GET /status lists the existing ones")
    return 200, {"status": "SUCCESS", "message": "", "queryId": None}


def _commands(node: Node, rights: Rights) -> list[str]:
    sources = [one for one in list(node.catalog.sources.values()) if rights.sees(one.name, one.topic)]
    return [f"{source.kind}/`{source.name}`/create" for source in sources]


def info(node: Node, body: Body, rights: Rights) -> Answered:
    """GET /info."""
    info = {
        "version": version("headrace"),
        "kafkaClusterId": PROGRAM_NAME,
        "ksqlServiceId": PROGRAM_NAME,
        "serverStatus": "RUNNING",
    }
    return 200, {"KsqlServerInfo": info}


def healthcheck(node: Node, body: Body, rights: Rights) -> Answered:
    """GET /healthcheck: checks that the log responds."""
    node.log.topics()
    fine = {"isHealthy": True}
    return 200, {"isHealthy": True, "details": {"metastore": fine, "kafka": fine, "commandRunner": fine}}


def cluster(node: Node, body: Body, rights: Rights) -> Answered:
    """GET /clusterStatus: always one host."""
    return 200, {"clusterStatus": {PROGRAM_NAME: {"hostAlive": True}}}


Answer = Callable[[Node, Body, Rights], Answered]
ROUTES: tuple[tuple[str, str, Answer], ...] = (
    ("POST", "/ksql", statements),
    ("GET", "/status", status),
    ("GET", "/status/{command:path}", command),
    ("GET", "/info", info),
    ("GET", "/healthcheck", healthcheck),
    ("GET", "/clusterStatus", cluster),
)


# -- HTTP -----------------------------------------------------------------------------------------------------------


def _route(node: Node, budget: BodyBudget, method: str, path: str, answer: Answer) -> Route:
    async def answered(request: Request) -> Response:
        try:
            with budget.share() as take:
                body = await _body(request, take) if method == "POST" else request.path_params
                status, document = await run_in_threadpool(answer, node, body, request_rights(request))
        except HeadraceError as error:
            await audit_refusal(node.guard, request, error)
            status, document = error_document(error)
        return Response(json.dumps(document, default=str), status, media_type=CONTENT_TYPE)

    return Route(path, answered, methods=[method])


def _query_handler(
    node: Node, budget: BodyBudget, answer: Callable[[Request, Body], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        body: Body = {}
        try:
            with budget.share() as take:
                body = await _body(request, take)
                return await answer(request, body)
        except HeadraceError as error:
            await audit_refusal(node.guard, request, error)
            status, document = error_document(error, str(body.get("ksql", body.get("sql", ""))))
            return Response(json.dumps(document, default=str), status, media_type=CONTENT_TYPE)

    return answered


async def _body(request: Request, take: Callable[[int], None]) -> Body:
    return parse_object(await read_body(request, MAX_STATEMENTS_BYTES, take))
