"""Questions that go on (SELECT ... EMIT CHANGES), as server-sent events or over a WebSocket.

The first message has the columns; each other one changes in their order: `{"row": [...]}`, or `{"deleted": [...]}` for
a row of a table that is gone, of which only the key is known. The last one says that the LIMIT is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from headrace.control.pushes import Subscription
from headrace.errors import BadQuery
from headrace.lang.ksql.text import type_text
from headrace.plan.answers.rows import Row
from headrace.plan.catalog import Ask
from headrace.serve.api.live import EVENTS, event_stream, socket_stream
from headrace.serve.api.parameters import QUERY, in_query, read
from headrace.serve.api.route import Be, Route
from headrace.serve.api.site import Site
from headrace.serve.notices import notifier, rows_of

PATH_OF_WATCHING = "/watch"
_BEAT = 15.0  # seconds after which one who watches is told that nothing came


@dataclass(frozen=True, kw_only=True)
class Watch:
    sql: str = in_query("SELECT ... EMIT CHANGES.")
    start: str = in_query("Where to begin: end, or beginning.", "end", name="from")


class Told(NamedTuple):
    """A message, as an event and by itself."""

    text: bytes

    @property
    def event(self) -> bytes:
        return b"data: " + self.text + b"\n\n"

    @property
    def message(self) -> str:
        return self.text.decode()


async def watch(site: Site, asked: Watch, request: Request) -> Response:
    """What a question answers as it goes on, as server-sent events, or over a WebSocket.

    The first event has the columns, each other one an array of changes. An event `error` ends the stream.
    """
    del request
    return await event_stream(_told(site, asked))


async def watch_socket(site: Site, socket: WebSocket) -> None:
    """The same over a WebSocket."""

    async def pages() -> AsyncGenerator[Told, None]:
        return _told(site, read(Watch, {QUERY: socket.query_params}))

    await socket_stream(socket, pages)


async def _told(site: Site, asked: Watch) -> AsyncGenerator[Told, None]:
    ask = await run_in_threadpool(_asked, site, asked.sql)
    news, pushes = asyncio.Event(), site.node.pushes
    notify, from_beginning = notifier(news), asked.start == "beginning"
    reader = await run_in_threadpool(lambda: pushes.subscribe(ask, from_beginning=from_beginning, notify=notify))
    try:
        yield _columns(ask)
        async for rows in rows_of(reader, news, _BEAT):
            yield _changes(rows)
        yield _end(reader)
    finally:
        pushes.unsubscribe(reader)


def _asked(site: Site, text: str) -> Ask:
    ask = site.node.asked(text, rights=site.rights)
    if not ask.push:
        raise BadQuery("what ends cannot be watched", fix="add EMIT CHANGES, or ask by GET /views/{view}/rows")
    return ask


def _columns(ask: Ask) -> Told:
    columns: list[dict[str, Any]] = [{"name": one.name, "type": type_text(one.type)} for one in ask.columns]
    return Told(orjson.dumps({"columns": columns}))


def _changes(rows: list[Row]) -> Told:
    changes = (b'{"%b":%b}' % (b"deleted" if row.deleted else b"row", row.text) for row in rows)
    return Told(b'{"changes":[' + b",".join(changes) + b"]}")


def _end(reader: Subscription) -> Told:
    if reader.failure is not None:
        raise reader.failure
    return Told(b'{"end":"Limit Reached"}')


ROUTES = (Route("GET", PATH_OF_WATCHING, watch, types=(EVENTS,), needs=Be.KNOWN),)
