"""States of queries as the console shows them, and the queries that a result still waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from headrace.control.queries.status import FAILED, PAUSED, RUNNING, STARTING, SUSPENDED, QueryStatus
from headrace.serve.console.poller import ServerSnapshot

STATE_NAMES = {SUSPENDED: "suspended"}
"""The names of states that are shown under another name than their own."""
_ORDER = (RUNNING, STARTING, "suspended", PAUSED, FAILED)


def is_starting(query: QueryStatus) -> bool:
    """Whether the query has yet to finish its first batch: until then, its results are missing, not empty."""
    if query.state == RUNNING:
        return bool(query.lag) and not query.batches and not query.records
    return query.state == STARTING


def state_name(query: QueryStatus) -> str:
    return STARTING if is_starting(query) else STATE_NAMES.get(query.state, query.state)


def state_summary(queries: Collection[QueryStatus]) -> str:
    """For example "1 running, 4 suspended"."""
    counts = Counter(map(state_name, queries))
    return ", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name])


def starting_queries(moment: ServerSnapshot, sources: Collection[str]) -> list[QueryStatus]:
    """The starting queries that the sources depend on, directly or through other queries."""
    writers = {query.sink: query for query in moment.queries}
    found: dict[str, QueryStatus] = {}
    left = list(sources)
    while left:
        query = writers.get(left.pop())
        if query is not None and query.name not in found:
            found[query.name] = query
            left += query.sources
    return [query for query in found.values() if is_starting(query)]


def starting_text(queries: Sequence[QueryStatus]) -> str:
    """Says which queries are starting and with what lag; empty if none is."""
    named = [f"{query.name} (lag: {query.lag:,} records)" if query.lag else query.name for query in queries]
    if not named:
        return ""
    return f"Query {named[0]} is starting" if len(named) == 1 else f"Queries {', '.join(named)} are starting"
