"""Records as they come: server-sent events, or messages of a WebSocket, at the same path.

Nothing is kept for a reader but its positions: one that does not read is held back, and what it has not read yet is
read from the log later. If its socket stands still for too long it is let go; if it was at the end and has fallen far
behind, it is told so, and let go. Every event says where to read on, so nothing is missed between two readers.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from headrace.access.grants import Deed, Kind
from headrace.contracts import Topic
from headrace.errors import SlowReader
from headrace.serve.api.live import EVENTS, event_stream, socket_stream
from headrace.serve.api.pages import Page
from headrace.serve.api.parameters import HEADER, PATH, QUERY, in_header, in_query, read
from headrace.serve.api.positions import Positions, position_text, starts
from headrace.serve.api.route import May, Route
from headrace.serve.api.site import Site
from headrace.serve.api.topics import Named, own_topic
from headrace.serve.notices import heard

PATH_OF_TAILS = "/topics/{topic}/tail"
MOST_BEHIND = 1_000_000
"""Records that one who was at the end may fall behind."""
_BEAT = 15.0  # seconds after which one who reads is told that nothing came


@dataclass(frozen=True, kw_only=True)
class Tail(Named):
    partition: int | None = in_query("Only this one.", None)
    start: str = in_query("Where to begin: end, beginning, a time, -10m, or positions.", "end", name="from")
    last: str | None = in_header(
        "Positions to read on from, which browsers send by themselves.", None, name="last-event-id"
    )


class Following:
    """The records of a topic from some positions on, for ever."""

    def __init__(self, site: Site, asked: Tail) -> None:
        self._topic: Topic = own_topic(site.log, asked.topic)
        self._positions: Positions = starts(site.log, asked.topic, asked.last or asked.start, asked.partition)
        self._grows = asked.partition is None
        self._site = site
        self._was_at_end = False

    async def pages(self) -> AsyncGenerator[Page, None]:
        """The first, and those that come when there is nothing for a while, have no records."""
        with self._site.waking.joined() as woken:
            yield Page([], dict(self._positions))
            while True:
                woken.clear()
                page = await self._next()
                if page.lines:
                    yield page
                    continue
                if not await heard(woken, _BEAT):
                    yield page

    async def _next(self) -> Page:
        turn = self._site.waking.turn
        page = await self._site.pages.next(turn, self._topic, self._positions, grows=self._grows)
        if self._was_at_end and page.behind > MOST_BEHIND:
            raise SlowReader(
                f"{page.behind} records are to be read, more than {MOST_BEHIND}",
                where=position_text(self._positions),
                fix="read page by page from there, then live again",
            )
        self._was_at_end = self._was_at_end or not page.left
        self._positions = page.positions
        return page


# -- server-sent events ---------------------------------------------------------------------------------------------


async def tail(site: Site, asked: Tail, request: Request) -> Response:
    """Records as they come, as server-sent events, or over a WebSocket.

    Each event has an array of records and, as its id, where to read on. An event `error` ends the stream.
    """
    del request
    following = await run_in_threadpool(Following, site, asked)
    return await event_stream(following.pages())


# -- WebSocket ------------------------------------------------------------------------------------------------------


async def tail_socket(site: Site, socket: WebSocket) -> None:
    """The same over a WebSocket: a message is `{"records": [...], "next": "..."}`, or `{"error": {...}}`, the last."""

    async def pages() -> AsyncGenerator[Page, None]:
        asked = _asked(socket)
        NEEDS.check(site.rights, asked)
        return (await run_in_threadpool(Following, site, asked)).pages()

    await socket_stream(socket, pages)


def _asked(connection: HTTPConnection) -> Tail:
    places = {PATH: connection.path_params, QUERY: connection.query_params, HEADER: connection.headers}
    return read(Tail, places)


NEEDS = May(Deed.READ, Kind.TOPIC, "topic")
ROUTES = (Route("GET", PATH_OF_TAILS, tail, types=(EVENTS,), needs=NEEDS),)
