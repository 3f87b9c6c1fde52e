"""Queries: their status; pausing, resuming, restarting and terminating them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.control.statements.permissions import can_see_query
from headrace.control.status import QueryStatus, query_status, query_statuses, server_status
from headrace.errors import UnknownQuery
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route


@dataclass(frozen=True, kw_only=True)
class QueryRequest:
    query: str = in_path("The query's name.")


def list_queries(context: RequestContext) -> list[QueryStatus]:
    """List all queries, with their status."""
    return query_statuses(context.node, context.sampler, context.rights)


def get_query(context: RequestContext, params: QueryRequest) -> QueryStatus:
    """Get one query."""
    _check(context, params.query)
    status = query_status(context.node, context.sampler, params.query)
    if status is None:
        raise _unknown(params.query)
    return status


def get_status(context: RequestContext) -> dict[str, Any]:
    """Get the status of the server: its version, its log, its queries, and statements that failed on replay."""
    return server_status(context.node, context.sampler, context.rights)


def pause_query(context: RequestContext, params: QueryRequest) -> QueryStatus:
    """Pause a query after the batch in progress. It stays paused after a restart of the server."""
    return _done(context, params.query, "PAUSE")


def resume_query(context: RequestContext, params: QueryRequest) -> QueryStatus:
    """Resume a query that is paused or has failed."""
    return _done(context, params.query, "RESUME")


def restart_query(context: RequestContext, params: QueryRequest) -> QueryStatus:
    """Restart a query from its checkpoint. A paused query stays paused."""
    _check(context, params.query)
    context.node.restart(params.query, rights=context.rights)
    return get_query(context, params)


def terminate_query(context: RequestContext, params: QueryRequest) -> None:
    """Terminate a query for good. Its output stays."""
    _check(context, params.query)
    context.node.execute(_statement("TERMINATE", params.query), rights=context.rights)


def _done(context: RequestContext, query: str, verb: str) -> QueryStatus:
    _check(context, query)
    context.node.execute(_statement(verb, query), rights=context.rights)
    return get_query(context, QueryRequest(query=query))


def _statement(verb: str, query: str) -> str:
    return f"{verb} `{query}`;"


def _check(context: RequestContext, query: str) -> None:
    """Raise as if the query did not exist if the caller may not see it."""
    registered = context.node.supervisor.queries.get(query)
    if registered is None or not can_see_query(context.rights, registered.query):
        raise _unknown(query)


def _unknown(query: str) -> UnknownQuery:
    return UnknownQuery(f'query "{query}" does not exist', fix="GET /api/v1/queries lists them")


ROUTES = (
    Route("GET", "/queries", list_queries, needs=AccessLevel.KNOWN, work=WorkClass.HEALTH),
    Route("GET", "/queries/{query}", get_query, needs=AccessLevel.KNOWN, work=WorkClass.HEALTH),
    Route("POST", "/queries/{query}/pause", pause_query, needs=AccessLevel.KNOWN, work=WorkClass.STATEMENT),
    Route("POST", "/queries/{query}/resume", resume_query, needs=AccessLevel.KNOWN, work=WorkClass.STATEMENT),
    Route("POST", "/queries/{query}/restart", restart_query, needs=AccessLevel.KNOWN, work=WorkClass.STATEMENT),
    Route("DELETE", "/queries/{query}", terminate_query, 204, needs=AccessLevel.KNOWN, work=WorkClass.STATEMENT),
    Route("GET", "/status", get_status, needs=AccessLevel.KNOWN, work=WorkClass.HEALTH),
)
