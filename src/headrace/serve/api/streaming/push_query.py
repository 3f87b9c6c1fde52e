"""Push queries (SELECT ... EMIT CHANGES) as server-sent events or over a WebSocket.

The first message has the columns. Each further message has changes, in order: `{"row": [...]}`, or `{"deleted": [...]}`
for a deleted row of a table, of which only the key is known. The last message says that the LIMIT is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from headrace.control.serving.push import PushSubscription
from headrace.control.serving.result_rows import ResultRow
from headrace.errors import BadQuery
from headrace.plan.actions import TransientSelect
from headrace.plan.types import type_text
from headrace.serve.admission.quotas import charge_rows
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import QUERY, in_query, read_parameters
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route
from headrace.serve.api.streaming.transport import EVENT_STREAM_TYPE, counted, event_stream, socket_stream
from headrace.serve.http.async_events import subscription_rows, thread_safe_setter

WATCH_PATH = "/watch"
_BEAT = 15.0  # seconds without a change until an empty message is sent


@dataclass(frozen=True, kw_only=True)
class WatchRequest:
    sql: str = in_query("SELECT ... EMIT CHANGES.")
    start: str = in_query("Where to start: end, or beginning.", "end", name="from")


class PushMessage(NamedTuple):
    """A message, as a server-sent event and as WebSocket text."""

    text: bytes

    @property
    def event(self) -> bytes:
        return b"data: " + self.text + b"\n\n"

    @property
    def message(self) -> str:
        return self.text.decode()


async def watch_query(context: RequestContext, params: WatchRequest, request: Request) -> Response:
    """Run a push query, as server-sent events or over a WebSocket.

    The first event has the columns, each further event an array of changes. An event `error` ends the stream.
    """
    del request
    return await event_stream(counted(_messages(context, params)))


async def watch_query_socket(context: RequestContext, socket: WebSocket) -> None:
    """Run a push query over a WebSocket."""

    async def pages() -> AsyncGenerator[PushMessage, None]:
        return counted(_messages(context, read_parameters(WatchRequest, {QUERY: socket.query_params})))

    await socket_stream(socket, pages)


async def _messages(context: RequestContext, params: WatchRequest) -> AsyncGenerator[PushMessage, None]:
    select = await context.run(_plan_push_query, context, params.sql)
    news, pushes = asyncio.Event(), context.node.push_queries
    notify, from_beginning = thread_safe_setter(news), params.start == "beginning"
    reader = await context.run(lambda: pushes.subscribe(select, from_beginning=from_beginning, notify=notify))
    try:
        yield _columns(select)
        async for rows in subscription_rows(reader, news, _BEAT):
            charge_rows(len(rows))
            yield _changes(rows)
        yield _end(reader)
    finally:
        pushes.unsubscribe(reader)


def _plan_push_query(context: RequestContext, text: str) -> TransientSelect:
    select = context.node.plan_select(text, rights=context.rights)
    if not select.push:
        raise BadQuery("a pull query cannot be watched", fix="add EMIT CHANGES, or use GET /views/{view}/rows")
    return select


def _columns(select: TransientSelect) -> PushMessage:
    columns: list[dict[str, Any]] = [{"name": one.name, "type": type_text(one.type)} for one in select.columns]
    return PushMessage(orjson.dumps({"columns": columns}))


def _changes(rows: list[ResultRow]) -> PushMessage:
    changes = (b'{"%b":%b}' % (b"deleted" if row.deleted else b"row", row.text) for row in rows)
    return PushMessage(b'{"changes":[' + b",".join(changes) + b"]}")


def _end(reader: PushSubscription) -> PushMessage:
    if reader.failure is not None:
        raise reader.failure
    return PushMessage(b'{"end":"Limit Reached"}')


ROUTES = (
    Route("GET", WATCH_PATH, watch_query, types=(EVENT_STREAM_TYPE,), needs=AccessLevel.KNOWN, work=WorkClass.PUSH),
)
