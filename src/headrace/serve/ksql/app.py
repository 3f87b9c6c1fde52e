"""The paths of ksqlDB's REST API.

Each row of `ROUTES` is one request, handled by a function from the node and the body to a JSON value. A node blocks on
its log, so it is called on other threads than the event loop's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.access.authorization import Rights
from headrace.control.node import PROGRAM_NAME, Node
from headrace.errors import HeadraceError, NotAllowed, UnknownCommand
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.errors import error_headers
from headrace.serve.caller import audit_refusal, request_rights, request_share
from headrace.serve.http.request_body import MAX_STATEMENTS_BYTES, BodyBudget, parse_object, read_body
from headrace.serve.ksql.entities import statement_entity
from headrace.serve.ksql.errors import CONTENT_TYPE, error_document, error_response
from headrace.serve.ksql.insert_stream import insert_stream_endpoint
from headrace.serve.ksql.queries import QueryEndpoints
from headrace.serve.ksql.statement_request import StatementRequest

Body = Mapping[str, Any]
Answered = tuple[int, Any]


def ksql_routes(node: Node, budget: BodyBudget, admission: Admission) -> list[Route]:
    """The routes over a node; bodies share the budget of all requests to the server."""
    endpoints = QueryEndpoints(node, admission)
    handlers = {
        "/query": (endpoints.query, WorkClass.PULL),
        "/query-stream": (endpoints.query_stream, WorkClass.PULL),
        "/close-query": (endpoints.close_query, None),  # it frees something, so it is never refused
    }
    routes = [
        Route(path, _query_handler(node, budget, admission, answer, work), methods=["POST"])
        for path, (answer, work) in handlers.items()
    ]
    inserts = Route("/inserts-stream", insert_stream_endpoint(node, budget, admission), methods=["POST"])
    return [*(_route(node, budget, admission, *row) for row in ROUTES), *routes, inserts]


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
ROUTES: tuple[tuple[str, str, Answer, WorkClass], ...] = (
    ("POST", "/ksql", statements, WorkClass.STATEMENT),
    ("GET", "/status", status, WorkClass.HEALTH),
    ("GET", "/status/{command:path}", command, WorkClass.HEALTH),
    ("GET", "/info", info, WorkClass.HEALTH),
    ("GET", "/healthcheck", healthcheck, WorkClass.HEALTH),
    ("GET", "/clusterStatus", cluster, WorkClass.HEALTH),
)


# -- HTTP -----------------------------------------------------------------------------------------------------------


def _route(
    node: Node, budget: BodyBudget, admission: Admission, method: str, path: str, answer: Answer, work: WorkClass
) -> Route:
    async def answered(request: Request) -> Response:
        rights, share = request_rights(request), request_share(request)
        try:
            admission.check(work, share)
            with budget.share(share) as take:
                body = await _body(request, take) if method == "POST" else request.path_params
                status, document = await admission.run(work, share, answer, node, body, rights)
        except HeadraceError as error:
            await audit_refusal(node.guard, admission, request, error)
            return error_response(error)
        return Response(json.dumps(document, default=str), status, error_headers(status), CONTENT_TYPE)

    return Route(path, answered, methods=[method])


def _query_handler(
    node: Node,
    budget: BodyBudget,
    admission: Admission,
    answer: Callable[[Request, Body], Awaitable[Response]],
    work: WorkClass | None,
) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        body: Body = {}
        share = request_share(request)
        try:
            if work is not None:
                admission.check(work, share)
            with budget.share(share) as take:
                body = await _body(request, take)
                return await answer(request, body)
        except HeadraceError as error:
            await audit_refusal(node.guard, admission, request, error)
            return error_response(error, str(body.get("ksql", body.get("sql", ""))))

    return answered


async def _body(request: Request, take: Callable[[int], None]) -> Body:
    return parse_object(await read_body(request, MAX_STATEMENTS_BYTES, take))
