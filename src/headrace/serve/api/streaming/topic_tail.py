"""Tails of topics: records as they arrive, as server-sent events or WebSocket messages, at the same path.

The server stores only the positions of a reader. A slow reader is subject to back-pressure, and reads the rest from the
log later. It is disconnected if its socket stalls for too long, or, with an error, if it was at the end and falls too
far behind. Every event contains the next position, so a new connection misses nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from headrace.access.grants import Privilege, ResourceType
from headrace.contracts import Topic
from headrace.control.statements.permissions import redact_errors
from headrace.errors import SlowConsumer
from headrace.serve.admission.quotas import charge_rows
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.log_io.positions import Positions, format_positions, start_positions
from headrace.serve.api.parameters import HEADER, PATH, QUERY, in_header, in_query, read_parameters
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.topics import TopicRequest, user_topic
from headrace.serve.api.route import RequiredPrivilege, Route
from headrace.serve.api.streaming.page_cache import TailPage
from headrace.serve.api.streaming.transport import EVENT_STREAM_TYPE, counted, event_stream, socket_stream
from headrace.serve.http.async_events import wait_for_event

TAIL_PATH = "/topics/{topic}/tail"
MAX_LAG = 1_000_000
"""Maximum lag, in records, of a reader that was at the end."""
_BEAT = 15.0  # seconds without a record until an empty page is sent


@dataclass(frozen=True, kw_only=True)
class TailRequest(TopicRequest):
    partition: int | None = in_query("Only this one.", None)
    start: str = in_query("Where to start: end, beginning, a time, -10m, or positions.", "end", name="from")
    last: str | None = in_header(
        "Positions to continue from; browsers send them automatically.", None, name="last-event-id"
    )


class TopicTail:
    """The records of a topic from some positions on, without end."""

    def __init__(self, context: RequestContext, params: TailRequest) -> None:
        self._topic: Topic = user_topic(context.log, params.topic)
        self._positions: Positions = start_positions(
            context.log, params.topic, params.last or params.start, params.partition
        )
        self._grows = params.partition is None
        self._context = context
        self._was_at_end = False

    async def pages(self) -> AsyncGenerator[TailPage, None]:
        """The pages. The first one has no records, nor has a page that is sent after a quiet period."""
        with self._context.append_signal.joined(self._context.share) as woken:
            yield TailPage([], dict(self._positions))
            while True:
                woken.clear()
                page = await self._next()
                if page.lines:
                    charge_rows(len(page.lines))
                    yield page
                    continue
                if not await wait_for_event(woken, _BEAT):
                    yield page

    async def _next(self) -> TailPage:
        turn = self._context.append_signal.turn
        page = await self._context.pages.next(turn, self._topic, self._positions, grows=self._grows)
        if self._was_at_end and page.behind > MAX_LAG:
            raise SlowConsumer(
                f"{page.behind} records are unread, more than {MAX_LAG}",
                where=format_positions(self._positions),
                fix="read pages from that position, then read live again",
            )
        self._was_at_end = self._was_at_end or not page.left
        self._positions = page.positions
        return page


# -- server-sent events ---------------------------------------------------------------------------------------------


async def tail_topic(context: RequestContext, params: TailRequest, request: Request) -> Response:
    """Stream the records of a topic as they arrive, as server-sent events or over a WebSocket.

    Each event has an array of records, and the next position as its id. An event `error` ends the stream.
    """
    del request
    following = await context.run(TopicTail, context, params)
    return await event_stream(counted(following.pages()))


# -- WebSocket ------------------------------------------------------------------------------------------------------


async def tail_socket(context: RequestContext, socket: WebSocket) -> None:
    """Tail a topic over a WebSocket: messages are `{"records": [...], "next": "..."}`; the last may be `{"error":
    {...}}`.
    """

    async def pages() -> AsyncGenerator[TailPage, None]:
        params = _tail_parameters(socket)
        NEEDS.check(context.rights, params)
        with redact_errors(context.rights):
            return counted((await context.run(TopicTail, context, params)).pages())

    await socket_stream(socket, pages)


def _tail_parameters(connection: HTTPConnection) -> TailRequest:
    places = {PATH: connection.path_params, QUERY: connection.query_params, HEADER: connection.headers}
    return read_parameters(TailRequest, places)


NEEDS = RequiredPrivilege(Privilege.READ, ResourceType.TOPIC, "topic")
ROUTES = (Route("GET", TAIL_PATH, tail_topic, types=(EVENT_STREAM_TYPE,), needs=NEEDS, work=WorkClass.PUSH),)
