"""Status of a server as one document: `headrace status` shows it, and `GET /api/v1/status` returns it.

    server_status(node, sampler)

It reads the node's memory and the lag of queries and views; it never blocks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.control.node import Node
from headrace.control.queries.metrics import MetricsSampler, QueryMetrics
from headrace.control.queries.supervisor import checkpoint_folder
from headrace.control.statements.permissions import can_see_query
from headrace.engine.log_adapter import log_adapter_for
from headrace.errors import HeadraceError, ServerFailed
from headrace.long_waits import LONG_WAITS, LongWait
from headrace.plan.nodes import Query as Plan
from headrace.plan.sources import SourceInfo

RUNNING, STARTING, PAUSED, SUSPENDED, FAILED = "running", "starting", "paused", "suspended", "failed"
PAUSING, RESTARTING, TERMINATING = "pausing", "restarting", "terminating"
"""A query that finishes its batch before it is paused, started again, or gone."""
STATES = (RUNNING, STARTING, SUSPENDED, PAUSED, FAILED, PAUSING, RESTARTING, TERMINATING)


@dataclass(frozen=True)
class QueryStatus:
    """The status of a query. A suspended query is idle, and not on Spark until it has new input.

    Totals count since the last start. `watermark` is the latest event time that the query has seen, in ms; `rate` is in
    records per second, `lag` in records, and `state_rows` is the number of rows in its state. `batch_split` is the
    duration of the last batch by phase: finding records, planning, execution, commit. `failure` is the reason of a
    failed query; `next_try_seconds` is null if it is not retried and waits for a person.
    """

    name: str
    text: str
    sink: str
    topic: str
    sources: list[str]
    state: str
    execution_mode: str | None = None
    rate: float = 0.0
    lag: int | None = None
    records: int = 0
    written: int = 0
    batches: int = 0
    batch_ms: int | None = None
    batch_split: dict[str, int] = field(default_factory=dict)
    state_rows: int = 0
    watermark: int | None = None
    late: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)
    failure: dict[str, Any] | None = None
    failures: int = 0
    next_try_seconds: float | None = None

    @property
    def is_starting(self) -> bool:
        """Whether the query has yet to finish its first batch: until then, its results are missing, not empty."""
        if self.state == RUNNING:
            return bool(self.lag) and not self.batches and not self.records
        return self.state == STARTING


def server_status(node: Node, sampler: MetricsSampler, rights: Rights = ALL_RIGHTS) -> dict[str, Any]:
    """The server, its queries and views, and broken journal entries, limited to what the principal may see."""
    broken = {number: error.as_dict() for number, error in sorted(node.broken.items()) if rights.is_admin}
    return {
        "version": version("headrace"),
        "log": node.settings.storage.log,
        "data": str(node.settings.storage.data.resolve()) if rights.is_admin else None,
        "queries": [asdict(one) for one in query_statuses(node, sampler, rights)],
        "views": view_statuses(node, rights),
        "broken": broken,
        "long_waits": [_long_wait(wait) for wait in LONG_WAITS.current()] if rights.is_admin else [],
    }


def _long_wait(wait: LongWait) -> dict[str, Any]:
    """A wait of more than a second for a lock or a queue, in progress."""
    return {"what": wait.what, "waiter": wait.waiter, "holder": wait.holder, "seconds": round(wait.seconds, 1)}


def query_statuses(node: Node, sampler: MetricsSampler, rights: Rights = ALL_RIGHTS) -> list[QueryStatus]:
    """The status of all queries that the principal may see."""
    visible = [name for name, one in list(node.supervisor.queries.items()) if can_see_query(rights, one.query)]
    statuses = (query_status(node, sampler, query) for query in visible)
    return [one for one in statuses if one is not None] + [
        _identity(stop.query, TERMINATING)
        for stop in list(node.supervisor.stops.values())
        if stop.name not in node.supervisor.queries and can_see_query(rights, stop.query)
    ]


def query_status(node: Node, sampler: MetricsSampler, query: str) -> QueryStatus | None:
    """The status of one query; None if it does not exist."""
    registered = node.supervisor.queries.get(query)
    if registered is None:
        return None
    status = replace(_identity(registered.query), **_state(node, sampler, query, paused=registered.paused))
    return replace(status, state=STARTING) if status.is_starting else status


def _identity(query: Plan, state: str = "") -> QueryStatus:
    sources = [source.name for source in query.sources]
    return QueryStatus(query.id, query.text, query.sink.name, query.sink.topic, sources, state)


def _state(node: Node, sampler: MetricsSampler, query: str, *, paused: bool) -> Mapping[str, Any]:
    running, failed = node.supervisor.running.get(query), node.reconciler.failures.get(query)
    if running is not None:
        state = STARTING if running.is_starting else RUNNING if running.is_active else FAILED
        return {"state": state, **_measurements(sampler.sample(running))}
    stops = node.supervisor.is_stopping(query)
    if paused:
        return {"state": PAUSING if stops else PAUSED}
    if query in node.reconciler.suspended:
        return {"state": SUSPENDED, "lag": 0}
    if failed is None and stops:
        return {"state": RESTARTING}
    if failed is None:
        return {"state": STARTING, "lag": _lag_of_new(node, query)}
    wait = None if failed.restart_at is None else max(0.0, failed.restart_at - time.monotonic())
    why = {"failure": failed.error.as_dict(), "failures": failed.count, "next_try_seconds": wait}
    return {"state": FAILED, **why}


def _lag_of_new(node: Node, query: str) -> int | None:
    """The lag of a query that runs for the first time and has no process yet; None if it resumes."""
    supervisor = node.supervisor
    if checkpoint_folder(supervisor.folder, query).exists():
        return None
    registered = supervisor.queries[query]
    topics = list({source.topic for source in registered.query.sources})
    return log_adapter_for(node.log, node.settings).lag(topics, registered.start)


def _measurements(status: QueryMetrics) -> dict[str, Any]:
    return {
        "execution_mode": status.execution_mode,
        "rate": round(status.rate, 3),
        "lag": status.lag,
        "records": status.records,
        "written": status.written,
        "batches": status.batches,
        "batch_ms": status.batch_time.get("total"),
        "batch_split": {name: ms for name, ms in status.batch_time.items() if name != "total"},
        "state_rows": status.state_rows,
        "watermark": status.event_time,
        "late": status.late,
        "dead_letters": dict(status.dead_letters),
    }


# -- views ----------------------------------------------------------------------------------------------------------


def view_statuses(node: Node, rights: Rights = ALL_RIGHTS) -> list[dict[str, Any]]:
    """The materialized tables, each with its lag in records of its topic."""
    sources = [node.catalog.sources.get(name) for name in node.tables.names]
    return [_view(node, source) for source in sources if source is not None and rights.sees(source.name, source.topic)]


def _view(node: Node, source: SourceInfo) -> dict[str, Any]:
    failure = node.tables.failure(source.name)
    status = {"name": source.name, "topic": source.topic, "lag": None, "skipped": 0, "rebuilt": 0}
    try:
        state = node.tables.state(source.name)
        ends = {partition: bounds.end for partition, bounds in node.log.bounds(source.topic).items()}
        lag = sum(max(0, end - state.position.get(partition, 0)) for partition, end in ends.items())
        status |= {"lag": lag, "skipped": state.skipped, "rebuilt": state.rebuilt}
    except HeadraceError as error:
        failure = failure or error
    return {**status, "failure": None if failure is None else _reason(failure)}


def _reason(failure: Exception) -> dict[str, Any]:
    if isinstance(failure, HeadraceError):
        return dict(failure.as_dict())
    return {"code": ServerFailed.code, "what": str(failure), "where": None, "fix": None}
