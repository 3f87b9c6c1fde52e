"""SELECT and PRINT over HTTP: `/query`, `/query-stream` and `/close-query`.

A pull query is answered at once if all of it fits a first batch, else while it is read, but not for ever: it holds a
state of its table. A push query, and PRINT, go on until they have their LIMIT, are closed, or nobody listens any more.
Who reads those slowly is waited for: see `control.pushes`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.access.decision import Rights
from headrace.control.node import Node
from headrace.control.permits import sees_all
from headrace.control.printing import Printing
from headrace.control.pushes import Subscription, is_single
from headrace.control.questions import OFFSET_RESET
from headrace.errors import BadRequest, HeadraceError, UnknownQuery
from headrace.plan.catalog import Ask
from headrace.serve.authentication import rights_of
from headrace.serve.ksql.shapes import ARRAY, OBJECTS, Array, Head, Lines, Objects, Shape, Text, is_table
from headrace.serve.notices import notifier, rows_of

LIMIT, COMPLETED = "Limit Reached", "Query Completed"
GRACE = 30.0
"""Seconds beyond `query_time` in which an answer must have been taken."""
Body = Mapping[str, Any]
_logger = logging.getLogger(__name__)


class Asking:
    """Answers questions of a node's clients, and knows those that go on by their names."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._open: dict[str, tuple[Subscription, str]] = {}
        """Each with the name of who asked: nobody else ends it, but an admin."""
        self._numbers = itertools.count(1)

    async def query(self, request: Request, body: Body) -> Response:
        """POST /query: SELECT as objects, PRINT as text."""
        rights = rights_of(request)
        return await self._answered(body, rights, "ksql", "streamsProperties", Objects(), Text())

    async def query_stream(self, request: Request, body: Body) -> Response:
        """POST /query-stream: in the way that the client accepts."""
        accepted = request.headers.get("accept", "")
        shape = Objects() if OBJECTS in accepted else Array() if ARRAY in accepted else Lines()
        return await self._answered(body, rights_of(request), "sql", "properties", shape, shape)

    async def close_query(self, request: Request, body: Body) -> Response:
        """POST /close-query."""
        subscription, who = self._open.get(str(body.get("queryId")), (None, None))
        rights = rights_of(request)
        if subscription is None or not (rights.is_admin or rights.who.name == who):
            raise UnknownQuery(f"no query {body.get('queryId')} goes on", fix="it may have ended already")
        subscription.end()
        return Response(b"{}", media_type=OBJECTS)

    async def _answered(
        self, body: Body, rights: Rights, text_name: str, properties_name: str, shape: Shape, printed: Shape
    ) -> Response:
        text, properties = body.get(text_name), body.get(properties_name) or {}
        if not isinstance(text, str) or not isinstance(properties, dict):
            raise BadRequest(f'the body has no "{text_name}"', fix=f'send {{"{text_name}": "SELECT ...;"}}')
        variables = {str(name): str(value) for name, value in (body.get("sessionVariables") or {}).items()}
        if not variables and not any(name.startswith("ksql.") for name in properties):
            answer = self._at_once(text, rights, shape, at_hand=True) if self._node.tables.are_near else None
            if answer is None:
                answer = await run_in_threadpool(self._at_once, text, rights, shape)
            if answer is not None:
                return Response(answer, media_type=shape.content_type)
        ask = await run_in_threadpool(partial(self._node.question, text, properties, variables, rights=rights))
        who = rights.who.name
        if isinstance(ask, Printing):
            return await self._printed(ask, printed, who)
        if ask.push:
            from_beginning = str(properties.get(OFFSET_RESET, "latest")).lower() == "earliest"
            return await self._pushed(ask, shape, who, from_beginning=from_beginning)
        return await self._pulled(ask, shape)

    # -- pull -------------------------------------------------------------------------------------------------------

    def _at_once(self, text: str, rights: Rights, shape: Shape, *, at_hand: bool = False) -> bytes | None:
        """The whole answer to a question that can be prepared; None if it is another, or too long to be held.

        What is prepared is over all rows: who may see some of them only is answered another way.
        """
        with self._node.preparing.taken(text, at_hand=at_hand) as question:
            if question is None or not sees_all(question.ask, rights):
                return None
            with self._node.pulls.prepared(question) as answer:
                batches = list(itertools.islice(answer.batches, 2))
            if len(batches) > 1:
                return None
            begin = shape.begin(Head.of(question.ask, self._name(question.ask)))
            return begin + shape.rows(batches[0] if batches else ()) + shape.end()

    async def _pulled(self, ask: Ask, shape: Shape) -> Response:
        """Most answers are short: those are made on another thread in one go."""
        seconds = self._node.pulls.settings.query_time.total_seconds()
        ends_at = anyio.current_time() + seconds + GRACE if seconds else math.inf
        parts = self._parts(ask, shape)
        begun = await run_in_threadpool(lambda: list(itertools.islice(parts, 2)))
        if len(begun) < 2:
            return Response(b"".join(begun), media_type=shape.content_type)
        return Reading(begun, parts, ends_at, shape.content_type)

    def _parts(self, ask: Ask, shape: Shape) -> Generator[bytes, None, None]:
        """The text batch by batch; the last batch has the end with it, for which nothing is held any more."""
        waiting, count, failure = shape.begin(Head.of(ask, self._name(ask))), 0, None
        with self._node.pulls.answered(ask) as answer:
            try:
                for rows in answer.batches:
                    if count:
                        yield waiting
                        waiting = b""
                    waiting += shape.rows(rows)
                    count += len(rows)
            except HeadraceError as error:
                if not count:
                    raise
                failure = error
        yield waiting + shape.end(None if failure or is_table(ask) else _message(ask, count), failure)

    # -- what goes on -----------------------------------------------------------------------------------------------

    async def _pushed(self, ask: Ask, shape: Shape, who: str, *, from_beginning: bool) -> Response:
        head = Head.of(ask, self._name(ask, shared=not from_beginning))
        subscribe = partial(self._node.pushes.subscribe, ask, from_beginning=from_beginning)
        return await self._going(head, shape, who, subscribe)

    async def _printed(self, printing: Printing, shape: Shape, who: str) -> Response:
        head = Head.of_records(f"print_{next(self._numbers)}", printing.formats)
        return await self._going(head, shape, who, partial(self._node.pushes.print, printing))

    async def _going(self, head: Head, shape: Shape, who: str, subscribe: Callable[..., Subscription]) -> Response:
        """It is listened to before the response begins: who has that misses nothing."""
        news = asyncio.Event()
        reader = await run_in_threadpool(subscribe, notify=notifier(news))
        self._open[head.query] = reader, who

        def close() -> None:
            del self._open[head.query]
            self._node.pushes.unsubscribe(reader)

        return Going(_told(reader, news, shape, shape.begin(head)), close, shape.content_type)

    def _name(self, ask: Ask, *, shared: bool = False) -> str:
        """ksqlDB calls those that share their work scalable."""
        begun = "SCALABLE_PUSH_QUERY" if ask.push and shared and is_single(ask) else ask.query.id
        return f"{begun}_{next(self._numbers)}"


class Reading(StreamingResponse):
    """What is there, while it is read. Whoever does not take it in time, or goes, lets go of the state it is of."""

    def __init__(
        self, begun: list[bytes], parts: Generator[bytes, None, None], ends_at: float, content_type: str
    ) -> None:
        super().__init__(iterate_in_threadpool(itertools.chain(begun, parts)), media_type=content_type)
        self._parts, self._ends_at = parts, ends_at

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A scope of anyio waits for the thread that may be in the midst of a part, as a timeout of asyncio does not.
        try:
            with anyio.CancelScope(deadline=self._ends_at) as reading:
                await super().__call__(scope, receive, send)
            if reading.cancelled_caught:  # a response without its end lets the server close the connection
                _logger.warning("an answer was not read within query_time and %g s, so it was ended", GRACE)
        finally:
            with anyio.CancelScope(shield=True), suppress(ValueError):  # a server that stops may have left that thread
                await run_in_threadpool(self._parts.close)


class Going(StreamingResponse):
    """A response that goes on until nobody listens; then, whatever happened, it is closed."""

    def __init__(self, parts: AsyncIterator[bytes], close: Callable[[], None], content_type: str) -> None:
        super().__init__(parts, media_type=content_type)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


async def _told(reader: Subscription, news: asyncio.Event, shape: Shape, begin: bytes) -> AsyncIterator[bytes]:
    yield begin
    async for rows in rows_of(reader, news):
        yield shape.rows(rows)
    yield shape.end(LIMIT if reader.failure is None else None, reader.failure)


def _message(ask: Ask, count: int) -> str:
    return LIMIT if ask.limit is not None and count >= ask.limit else COMPLETED
