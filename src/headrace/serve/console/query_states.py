"""States of queries as the console shows them, and the queries that a result still waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from headrace.control.incomplete_results import writers_of
from headrace.control.status import STARTING, STATES, SUSPENDED, QueryStatus
from headrace.serve.console.poller import ServerSnapshot

STATE_NAMES = {SUSPENDED: "suspended"}
"""The names of states that are shown under another name than their own."""
_ORDER = tuple(STATE_NAMES.get(state, state) for state in STATES)


def state_name(query: QueryStatus) -> str:
    return STARTING if query.is_starting else STATE_NAMES.get(query.state, query.state)


def state_summary(queries: Collection[QueryStatus]) -> str:
    """For example "1 running, 4 suspended"."""
    counts = Counter(map(state_name, queries))
    return ", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name])


def starting_queries(moment: ServerSnapshot, sources: Collection[str]) -> list[QueryStatus]:
    """The starting queries that the sources depend on, directly or through other queries."""
    return [query for query in writers_of(moment.queries, sources) if query.is_starting]


def starting_text(queries: Sequence[QueryStatus]) -> str:
    """Says which queries are starting and with what lag; empty if none is."""
    named = [f"{query.name} (lag: {query.lag:,} records)" if query.lag else query.name for query in queries]
    if not named:
        return ""
    return f"Query {named[0]} is starting" if len(named) == 1 else f"Queries {', '.join(named)} are starting"
