"""Says why results may be incomplete: a query that writes what a statement reads is starting, has failed or is paused.

Without this, a pull query on a table whose query is still starting returns no rows, as if the table were empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.control.node import Node
from headrace.control.queries.metrics import MetricsSampler
from headrace.control.status import FAILED, PAUSED, QueryStatus, query_statuses


def incomplete_results(node: Node, sources: Collection[str], rights: Rights = ALL_RIGHTS) -> str:
    """The notices on all queries that the sources depend on, in one line; empty if all of them are up to date."""
    if all(_has_begun(node, query) for query in list(node.supervisor.queries)):
        return ""  # the usual case needs no look at the log
    writers = writers_of(query_statuses(node, MetricsSampler(), rights), sources)
    return "; ".join(text for text in map(notice, writers) if text)


def _has_begun(node: Node, query: str) -> bool:
    running = node.supervisor.running.get(query)
    if running is None:
        return query in node.reconciler.suspended
    return running.is_active and running.progress.batches > 0


def writers_of(queries: Iterable[QueryStatus], sources: Collection[str]) -> list[QueryStatus]:
    """The queries that the sources depend on, directly or through other queries."""
    writers = {query.sink: query for query in queries}
    upstream: dict[str, QueryStatus] = {}
    pending = list(sources)
    while pending:
        query = writers.get(pending.pop())
        if query is not None and query.name not in upstream:
            upstream[query.name] = query
            pending += query.sources
    return list(upstream.values())


def notice(query: QueryStatus) -> str:
    """For example "query CTAS_SALES_1 is starting, 1,204 records behind"; empty for a running or idle query."""
    if query.is_starting:
        return f"query {query.name} is starting" + (f", {query.lag:,} records behind" if query.lag else "")
    if query.state == FAILED:
        code = (query.failure or {}).get("code")
        return f"query {query.name} has failed" + (f" ({code})" if code else "")
    return f"query {query.name} is paused" if query.state == PAUSED else ""
