"""Queries: their status; pausing, resuming, restarting and terminating them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.control.statements.permissions import can_see_query
from headrace.control.status import QueryStatus, query_status, query_statuses, server_status
from headrace.errors import UnknownQuery
from headrace.serve.api.parameters import in_path
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route


@dataclass(frozen=True, kw_only=True)
class QueryRequest:
    query: str = in_path("The query's name.")


def list_queries(site: RequestContext) -> list[QueryStatus]:
    """List all queries, with their status."""
    return query_statuses(site.node, site.sampler, site.rights)


def get_query(site: RequestContext, params: QueryRequest) -> QueryStatus:
    """Get one query."""
    _check(site, params.query)
    found = query_status(site.node, site.sampler, params.query)
    if found is None:
        raise _unknown(params.query)
    return found


def get_status(site: RequestContext) -> dict[str, Any]:
    """Get the status of the server: its version, its log, its queries, and statements that failed on replay."""
    return server_status(site.node, site.sampler, site.rights)


def pause_query(site: RequestContext, params: QueryRequest) -> QueryStatus:
    """Pause a query after the batch in progress. It stays paused after a restart of the server."""
    return _done(site, params.query, "PAUSE")


def resume_query(site: RequestContext, params: QueryRequest) -> QueryStatus:
    """Resume a query that is paused or has failed."""
    return _done(site, params.query, "RESUME")


def restart_query(site: RequestContext, params: QueryRequest) -> QueryStatus:
    """Restart a query from its checkpoint. A paused query stays paused."""
    _check(site, params.query)
    site.node.restart(params.query, rights=site.rights)
    return get_query(site, params)


def terminate_query(site: RequestContext, params: QueryRequest) -> None:
    """Terminate a query for good. Its output stays."""
    _check(site, params.query)
    site.node.execute(_statement("TERMINATE", params.query), rights=site.rights)


def _done(site: RequestContext, query: str, verb: str) -> QueryStatus:
    _check(site, query)
    site.node.execute(_statement(verb, query), rights=site.rights)
    return get_query(site, QueryRequest(query=query))


def _statement(verb: str, query: str) -> str:
    return f"{verb} `{query}`;"


def _check(site: RequestContext, query: str) -> None:
    """Raise as if the query did not exist if the caller may not see it."""
    registered = site.node.supervisor.queries.get(query)
    if registered is None or not can_see_query(site.rights, registered.query):
        raise _unknown(query)


def _unknown(query: str) -> UnknownQuery:
    return UnknownQuery(f'query "{query}" does not exist', fix="GET /api/v1/queries lists them")


ROUTES = (
    Route("GET", "/queries", list_queries, needs=AccessLevel.KNOWN),
    Route("GET", "/queries/{query}", get_query, needs=AccessLevel.KNOWN),
    Route("POST", "/queries/{query}/pause", pause_query, needs=AccessLevel.KNOWN),
    Route("POST", "/queries/{query}/resume", resume_query, needs=AccessLevel.KNOWN),
    Route("POST", "/queries/{query}/restart", restart_query, needs=AccessLevel.KNOWN),
    Route("DELETE", "/queries/{query}", terminate_query, 204, needs=AccessLevel.KNOWN),
    Route("GET", "/status", get_status, needs=AccessLevel.KNOWN),
)
