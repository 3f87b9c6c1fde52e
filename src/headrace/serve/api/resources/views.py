"""Views: materialized tables, read by KSQL. A response reflects one state of the view, whose position it contains.

With the token of a write, the response waits until the table reflects that write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from headrace.contracts import TopicPartition
from headrace.control.read_your_writes import WriteTracker
from headrace.control.serving.processes import Process
from headrace.errors import BadRequest, HeadraceError, ServerFailed, UnknownView, ViewLagging
from headrace.plan.sources import SourceInfo
from headrace.plan.types import identifier_text
from headrace.serve.admission.client_work import ClientWork
from headrace.serve.admission.quotas import charge_rows
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.positions import Positions, format_positions, parse_positions
from headrace.serve.api.parameters import in_path, in_query
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route
from headrace.settings import parse_duration

MAX_ROWS = 10_000
_LONGEST = 60.0  # maximum seconds to wait
_PAUSE = 0.05  # seconds between two polls
JSON = "application/json"


@dataclass(frozen=True)
class ViewDescription:
    """A view. `position` is its progress in its topic, `version` the number of changes since it was built.

    `skipped` counts records that could not be decoded. `rebuilt` counts how often it was rebuilt, `reason` says why;
    `failure` says why it is currently not updated.
    """

    name: str
    topic: str
    columns: list[str]
    position: str | None
    version: int | None
    stream_time: int | None
    skipped: int | None
    rebuilt: int | None
    reason: str | None
    failure: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class ViewRequest:
    view: str = in_path("The table's name.")


@dataclass(frozen=True, kw_only=True)
class ReadViewRequest(ViewRequest):
    select: str = in_query("Columns and expressions.", "*")
    where: str | None = in_query("A condition.", None)
    order: str | None = in_query("Columns to order by.", None)
    limit: int = in_query("Maximum number of rows to return.", 1_000, most=MAX_ROWS)
    token: str | None = in_query("What a write answered: the table must reflect it.", None)
    wait: str = in_query("How long to wait for that.", "10s")


def list_views(context: RequestContext) -> list[ViewDescription]:
    """List all views, with their progress."""
    sources = [context.node.catalog.sources[name] for name in context.node.tables.names]
    return [_described(context, one.name) for one in sources if context.rights.sees(one.name, one.topic)]


def get_view(context: RequestContext, params: ViewRequest) -> ViewDescription:
    """Get one view."""
    return _described(context, _source(context, params.view).name)


async def read_view(context: RequestContext, params: ReadViewRequest, request: Request) -> Response:
    """Read rows of a view: `{"columns": [...], "rows": [[...], ...], "position": "..."}`."""
    with ClientWork(request, context.admission, context.share) as client:
        source = await client.run(context.work, partial(_source, context, params.view))
        if params.token:
            await _reflects(context, source, parse_positions(params.token), _seconds(params.wait))
        rows = await client.run(context.work, partial(_rows, context, source, params, client.begun))
    return Response(rows, media_type=JSON)


def read_view_now(context: RequestContext, params: ReadViewRequest) -> bytes:
    """Like `read_view`, but does not wait: the current state of the view."""
    return _rows(context, _source(context, params.view), params)


# -- descriptions ---------------------------------------------------------------------------------------------------


def _source(context: RequestContext, name: str) -> SourceInfo:
    actual_name = next((one for one in (name, name.upper()) if one in context.node.tables.names), None)
    if actual_name is None:
        raise UnknownView(f'materialized table "{name}" does not exist', fix="GET /api/v1/views lists them")
    source = context.node.catalog.sources[actual_name]
    context.rights.rows(source.name, source.topic)
    return source


def _described(context: RequestContext, name: str) -> ViewDescription:
    source, failure = context.node.catalog.sources[name], context.node.tables.failure(name)
    relation = source.relation
    columns = [field.name for field in (*relation.key, *relation.value)]
    facts = name, source.topic, columns
    with suppress(ViewLagging):
        state = context.node.tables.state(name)
        position = _position_text(source, state.position)
        figures = position, state.version, state.stream_time, state.skipped, state.rebuilt, state.reason or None
        return ViewDescription(*facts, *figures, _reason(failure))
    return ViewDescription(*facts, None, None, None, None, None, None, _reason(failure))


def _reason(failure: Exception | None) -> dict[str, Any] | None:
    if failure is None or isinstance(failure, HeadraceError):
        return None if failure is None else dict(failure.as_dict())
    return {"code": ServerFailed.code, "what": str(failure), "where": None, "fix": None}


def _position_text(source: SourceInfo, position: Mapping[int, int]) -> str:
    return format_positions({TopicPartition(source.topic, partition): at for partition, at in position.items()})


# -- rows -----------------------------------------------------------------------------------------------------------


def _rows(
    context: RequestContext, source: SourceInfo, params: ReadViewRequest, begun: Callable[[Process], object] = id
) -> bytes:
    planned = context.node.plan_select(_text(source, params), rights=context.rights)
    if {one.name for one in planned.query.sources} != {source.name} or planned.limit != params.limit:
        raise BadRequest(
            '"select", "where" and "order" must each be a complete clause', fix="send other queries to /query"
        )
    if planned.push:
        raise BadRequest("a page of rows does not support EMIT CHANGES", fix="send the query to /query-stream")
    with context.node.pull_queries.execute(planned, begun) as pulled:
        rows = [row.text for batch in pulled.batches for row in batch]
        charge_rows(len(rows))
        position = None if pulled.state is None else _position_text(source, pulled.state.position)
    names = [column.name for column in planned.columns]
    facts = {"columns": names, "position": position}
    return b'{"rows":[' + b",".join(rows) + b"]," + orjson.dumps(facts)[1:]


def _text(source: SourceInfo, params: ReadViewRequest) -> str:
    parts = [f"SELECT {params.select} FROM {identifier_text(source.name)}"]
    parts += [f"WHERE {params.where}"] if params.where else []
    parts += [f"ORDER BY {params.order}"] if params.order else []
    return " ".join([*parts, f"LIMIT {params.limit};"])


# -- read your writes -----------------------------------------------------------------------------------------------


def _seconds(text: str) -> float:
    try:
        return min(parse_duration(text).total_seconds(), _LONGEST)
    except ValueError as error:
        raise BadRequest(f'"wait" cannot be "{text[:40]}": {error}', fix="for example 10s") from None


async def _reflects(context: RequestContext, source: SourceInfo, positions: Positions, seconds: float) -> None:
    """Wait on the event loop: threads are scarce."""
    tracker, deadline = WriteTracker(context.node, positions), time.monotonic() + seconds
    while not await context.run(_has, context, source, tracker):
        if time.monotonic() > deadline:
            query = (
                f"query {tracker.lagging_query} has not read so far" if tracker.lagging_query else "its view is behind"
            )
            raise ViewLagging(
                f'table "{source.name}" does not reflect the write after {seconds:g} s: {query}',
                where=format_positions(positions),
                fix="try again, or check that the query runs",
            )
        await asyncio.sleep(_PAUSE)


def _has(context: RequestContext, source: SourceInfo, tracker: WriteTracker) -> bool:
    position = tracker.position(source.topic)
    with suppress(ViewLagging):
        return position is not None and context.node.tables.state(source.name).reflects(position)
    return False


ROUTES = (
    Route("GET", "/views", list_views, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route("GET", "/views/{view}", get_view, needs=AccessLevel.KNOWN, work=WorkClass.ADMINISTRATION),
    Route("GET", "/views/{view}/rows", read_view, needs=AccessLevel.KNOWN, work=WorkClass.PULL),
)
