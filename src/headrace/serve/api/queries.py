"""Queries: how each is doing, and pausing, resuming, restarting and ending them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.control.condition import Condition, condition, conditions, status_of
from headrace.control.permits import sees_query
from headrace.errors import UnknownQuery
from headrace.serve.api.parameters import in_path
from headrace.serve.api.route import Be, Route
from headrace.serve.api.site import Site


@dataclass(frozen=True, kw_only=True)
class Named:
    query: str = in_path("The query's name.")


def list_queries(site: Site) -> list[Condition]:
    """All queries, with how they are doing."""
    return conditions(site.node, site.watch, site.rights)


def get_query(site: Site, asked: Named) -> Condition:
    """One query."""
    _check(site, asked.query)
    found = condition(site.node, site.watch, asked.query)
    if found is None:
        raise _unknown(asked.query)
    return found


def get_status(site: Site) -> dict[str, Any]:
    """The server as a whole: its version, its log, its queries, and statements that it could not do any more."""
    return status_of(site.node, site.watch, site.rights)


def pause_query(site: Site, asked: Named) -> Condition:
    """Let the batch under way end, and start no other; also after a restart."""
    return _done(site, asked.query, "PAUSE")


def resume_query(site: Site, asked: Named) -> Condition:
    """Let a query go on that was paused, or has failed."""
    return _done(site, asked.query, "RESUME")


def restart_query(site: Site, asked: Named) -> Condition:
    """Stop a query and start it again from its checkpoint; one that is paused stays so."""
    _check(site, asked.query)
    site.node.restart(asked.query, rights=site.rights)
    return get_query(site, asked)


def terminate_query(site: Site, asked: Named) -> None:
    """End a query for good. What it wrote stays."""
    _check(site, asked.query)
    site.node.execute(_statement("TERMINATE", asked.query), rights=site.rights)


def _done(site: Site, query: str, verb: str) -> Condition:
    _check(site, query)
    site.node.execute(_statement(verb, query), rights=site.rights)
    return get_query(site, Named(query=query))


def _statement(verb: str, query: str) -> str:
    return f"{verb} `{query}`;"


def _check(site: Site, query: str) -> None:
    """One that may not be seen is not there."""
    enlisted = site.node.supervisor.queries.get(query)
    if enlisted is None or not sees_query(site.rights, enlisted.query):
        raise _unknown(query)


def _unknown(query: str) -> UnknownQuery:
    return UnknownQuery(f'there is no query "{query}"', fix="GET /api/v1/queries lists them")


ROUTES = (
    Route("GET", "/queries", list_queries, needs=Be.KNOWN),
    Route("GET", "/queries/{query}", get_query, needs=Be.KNOWN),
    Route("POST", "/queries/{query}/pause", pause_query, needs=Be.KNOWN),
    Route("POST", "/queries/{query}/resume", resume_query, needs=Be.KNOWN),
    Route("POST", "/queries/{query}/restart", restart_query, needs=Be.KNOWN),
    Route("DELETE", "/queries/{query}", terminate_query, 204, needs=Be.KNOWN),
    Route("GET", "/status", get_status, needs=Be.KNOWN),
)
