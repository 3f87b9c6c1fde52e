"""How a server is doing, as one document: what `headrace status` shows, and `GET /api/v1/status` gives.

    status_of(node, watch)

One look at what the node has in memory, and at how much is left to read; nothing is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from headrace.access.decision import ALL, Rights
from headrace.control.node import Node
from headrace.control.permits import sees_query
from headrace.control.status import Status, Watch
from headrace.errors import HeadraceError, ServerFailed
from headrace.plan.catalog import SourceInfo

RUNNING, STARTING, PAUSED, PARKED, FAILED = STATES = ("running", "starting", "paused", "parked", "failed")


@dataclass(frozen=True)
class Condition:
    """A query at one moment. A parked one has nothing to do, and is not in Spark until it has.

    Totals count since it was started last. `watermark` is the latest event time that it has seen, in ms; `rate` is in
    records a second, `lag` in records that it has yet to read, `state_rows` what it holds in state. `batch_split` says
    what the last batch took its time for: looking for records, planning, work, noting that it is done. One that has
    failed says why; `next_try_seconds` is null if it waits for a person.
    """

    name: str
    text: str
    sink: str
    topic: str
    sources: list[str]
    state: str
    way: str | None = None
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


def status_of(node: Node, watch: Watch, rights: Rights = ALL) -> dict[str, Any]:
    """The server, its queries and views, and statements that it could not do any more: of these, what may be seen."""
    broken = {number: error.as_dict() for number, error in sorted(node.broken.items()) if rights.is_admin}
    return {
        "version": version("headrace"),
        "log": node.settings.log,
        "data": str(node.settings.data.resolve()) if rights.is_admin else None,
        "queries": [asdict(one) for one in conditions(node, watch, rights)],
        "views": views(node, rights),
        "broken": broken,
    }


def conditions(node: Node, watch: Watch, rights: Rights = ALL) -> list[Condition]:
    """Of all queries that there are at the moment, and may be seen."""
    seen = [name for name, one in list(node.supervisor.queries.items()) if sees_query(rights, one.query)]
    found = (condition(node, watch, query) for query in seen)
    return [one for one in found if one is not None]


def condition(node: Node, watch: Watch, query: str) -> Condition | None:
    """Of one query; None if there is none of that name."""
    enlisted = node.supervisor.queries.get(query)
    if enlisted is None:
        return None
    plan = enlisted.query
    facts = (query, plan.text, plan.sink.name, plan.sink.topic, [source.name for source in plan.sources])
    return Condition(*facts, **_state(node, watch, query, paused=enlisted.paused))


def _state(node: Node, watch: Watch, query: str, *, paused: bool) -> Mapping[str, Any]:
    running, setback = node.supervisor.running.get(query), node.care.setbacks.get(query)
    if running is not None:
        state = STARTING if running.is_starting else RUNNING if running.is_active else FAILED
        return {"state": state, **_figures(watch.look(running))}
    if paused:
        return {"state": PAUSED}
    if query in node.care.parked:
        return {"state": PARKED, "lag": 0}
    if setback is None:
        return {"state": STARTING}
    again = None if setback.again_at is None else max(0.0, setback.again_at - time.monotonic())
    why = {"failure": setback.failure.as_dict(), "failures": setback.times, "next_try_seconds": again}
    return {"state": FAILED, **why}


def _figures(status: Status) -> dict[str, Any]:
    return {
        "way": status.way,
        "rate": round(status.rate, 3),
        "lag": status.waiting,
        "records": status.records,
        "written": status.written,
        "batches": status.batches,
        "batch_ms": status.batch_time.get("total"),
        "batch_split": {name: ms for name, ms in status.batch_time.items() if name != "total"},
        "state_rows": status.entries,
        "watermark": status.event_time,
        "late": status.late,
        "dead_letters": dict(status.dead),
    }


# -- views ----------------------------------------------------------------------------------------------------------


def views(node: Node, rights: Rights = ALL) -> list[dict[str, Any]]:
    """Tables that can be asked, and how many records of its topic each has yet to take."""
    sources = [node.catalog.sources.get(name) for name in node.tables.names]
    return [_view(node, source) for source in sources if source is not None and rights.sees(source.name, source.topic)]


def _view(node: Node, source: SourceInfo) -> dict[str, Any]:
    failure = node.tables.failure(source.name)
    told = {"name": source.name, "topic": source.topic, "lag": None, "skipped": 0, "rebuilt": 0}
    try:
        state = node.tables.state(source.name)
        ends = {partition: bounds.end for partition, bounds in node.log.bounds(source.topic).items()}
        lag = sum(max(0, end - state.position.get(partition, 0)) for partition, end in ends.items())
        told |= {"lag": lag, "skipped": state.skipped, "rebuilt": state.rebuilt}
    except HeadraceError as error:
        failure = failure or error
    return {**told, "failure": None if failure is None else _reason(failure)}


def _reason(failure: Exception) -> dict[str, Any]:
    if isinstance(failure, HeadraceError):
        return dict(failure.as_dict())
    return {"code": ServerFailed.code, "what": str(failure), "where": None, "fix": None}
