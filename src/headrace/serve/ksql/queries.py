"""SELECT and PRINT over HTTP: `/query`, `/query-stream` and `/close-query`.

The result of a pull query is sent at once if it fits in a first batch. Otherwise it is streamed, with a time limit,
since it holds a snapshot of its table. A push query or PRINT runs until it reaches its LIMIT, is closed, or the client
disconnects. Slow clients of those cause back-pressure: see `control.serving.push`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.access.authorization import Rights
from headrace.control.incomplete_results import incomplete_results
from headrace.control.node import Node
from headrace.control.serving.print_topic import TopicPrinter
from headrace.control.serving.processes import Process
from headrace.control.serving.push import PushSubscription, is_stateless
from headrace.control.statements.permissions import can_see_all_rows
from headrace.control.statements.runtime import OFFSET_RESET
from headrace.errors import HeadraceError, UnknownQuery
from headrace.plan.actions import TransientSelect
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.client_work import ClientWork
from headrace.serve.admission.quotas import charge_rows, open_stream
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.caller import request_rights
from headrace.serve.http.async_events import subscription_rows, thread_safe_setter
from headrace.serve.ksql.response_formats import (
    ARRAY,
    OBJECTS,
    DelimitedLines,
    JsonArray,
    JsonObjects,
    PlainText,
    ResponseFormat,
    ResponseHeader,
    is_table,
)
from headrace.serve.ksql.statement_request import StatementRequest

LIMIT_REACHED, QUERY_COMPLETED = "Limit Reached", "Query Completed"
PULL_READ_GRACE = 30.0
"""Seconds beyond `query.pull_timeout` in which the client must have read the result."""
WANTS_NOTICES, NOTICES = "headrace-notices", "headrace-notice"
"""Headers: a request that has the first gets the second if the result may be incomplete."""
Body = Mapping[str, Any]
_logger = logging.getLogger(__name__)


class QueryEndpoints:
    """Runs the queries of a node's clients, and stores the open push queries by name."""

    def __init__(self, node: Node, admission: Admission) -> None:
        self._node = node
        self._admission = admission
        self._open: dict[str, tuple[PushSubscription, str]] = {}
        """Each with the name of its user: only that user or an admin may close it."""
        self._numbers = itertools.count(1)

    async def query(self, request: Request, body: Body) -> Response:
        """POST /query: SELECT as objects, PRINT as text."""
        statement = StatementRequest.of(body, "ksql", "streamsProperties")
        return await self._respond(request, statement, JsonObjects(), PlainText())

    async def query_stream(self, request: Request, body: Body) -> Response:
        """POST /query-stream: in the format that the client accepts."""
        accepted = request.headers.get("accept", "")
        shape = JsonObjects() if OBJECTS in accepted else JsonArray() if ARRAY in accepted else DelimitedLines()
        return await self._respond(request, StatementRequest.of(body, "sql", "properties"), shape, shape)

    async def close_query(self, request: Request, body: Body) -> Response:
        """POST /close-query."""
        subscription, principal = self._open.get(str(body.get("queryId")), (None, None))
        rights = request_rights(request)
        if subscription is None or not (rights.is_admin or rights.principal.name == principal):
            raise UnknownQuery(f"query {body.get('queryId')} is not running", fix="it may have already ended")
        subscription.end()
        return Response(b"{}", media_type=OBJECTS)

    async def _respond(
        self, request: Request, statement: StatementRequest, shape: ResponseFormat, printed: ResponseFormat
    ) -> Response:
        rights = request_rights(request)
        with ClientWork(request, self._admission, rights.principal.name) as client:
            return await self._answered(request, client, rights, statement, shape, printed)

    async def _answered(
        self,
        request: Request,
        client: ClientWork,
        rights: Rights,
        statement: StatementRequest,
        shape: ResponseFormat,
        printed: ResponseFormat,
    ) -> Response:
        wants_notices, principal = WANTS_NOTICES in request.headers, rights.principal.name
        run = partial(client.run, WorkClass.PULL)
        text, properties, variables = statement
        if not variables and not any(name.startswith("ksql.") for name in properties):
            at_once = partial(self._at_once, text, rights, shape, wants_notices=wants_notices)
            # a notice may have to look at the log, which blocks
            is_ready = self._node.tables.are_local and not wants_notices
            response = at_once(ready_only=True) if is_ready else None
            if response is None:
                response = await run(at_once)
            if response is not None:
                return response
        select, work = await run(partial(self._planned, statement, rights))
        if isinstance(select, TopicPrinter):
            return await self._printed(select, printed, principal)
        headers = await run(partial(self._notices, select, rights)) if wants_notices else {}
        if select.push:
            from_beginning = str(properties.get(OFFSET_RESET, "latest")).lower() == "earliest"
            response = await self._pushed(select, shape, principal, from_beginning=from_beginning)
        else:
            response = await self._pulled(client, work, select, shape, principal)
        response.headers.update(headers)
        return response

    def _planned(self, statement: StatementRequest, rights: Rights) -> tuple[TransientSelect | TopicPrinter, WorkClass]:
        """The query, and the class of its work if it is a pull query."""
        select = self._node.plan_transient_query(*statement, rights=rights)
        if isinstance(select, TopicPrinter) or select.push or not self._node.pull_queries.needs_worker(select):
            return select, WorkClass.PULL
        return select, WorkClass.HEAVY_PULL

    def _notices(self, select: TransientSelect, rights: Rights) -> dict[str, str]:
        """A header that says why the result may be incomplete: ksqlDB's responses have no place for it."""
        text = incomplete_results(self._node, {source.name for source in select.query.sources}, rights)
        return {NOTICES: text.encode("unicode_escape").decode()} if text else {}  # names may have line breaks

    # -- pull queries -----------------------------------------------------------------------------------------------

    def _at_once(
        self, text: str, rights: Rights, shape: ResponseFormat, *, wants_notices: bool, ready_only: bool = False
    ) -> Response | None:
        """The whole result of a query that can be prepared; None if it cannot, or if the result is too long.

        A prepared query covers all rows: users who may see only some rows are served by the general path.
        """
        with self._node.prepared_queries.borrow(text, ready_only=ready_only) as prepared:
            if prepared is None or not can_see_all_rows(prepared.select, rights):
                return None
            # before the rows are read: a query that starts meanwhile is not yet in them
            headers = self._notices(prepared.select, rights) if wants_notices else {}
            with self._node.pull_queries.execute_prepared(prepared) as answer:
                batches = list(itertools.islice(answer.batches, 2))
            if len(batches) > 1:
                return None
            charge_rows(len(batches[0]) if batches else 0)
            begin = shape.begin(ResponseHeader.of(prepared.select, self._name(prepared.select)))
            content = begin + shape.rows(batches[0] if batches else ()) + shape.end()
            return Response(content, headers=headers, media_type=shape.content_type)

    async def _pulled(
        self, client: ClientWork, work: WorkClass, select: TransientSelect, shape: ResponseFormat, principal: str
    ) -> Response:
        """Most results are short: they are computed on a thread in one go.

        Only the begin of a result waits for a pull worker; what follows has been computed, or is about to be.
        """
        seconds = self._node.pull_queries.settings.query.pull_timeout.total_seconds()
        ends_at = anyio.current_time() + seconds + PULL_READ_GRACE if seconds else math.inf
        parts = self._parts(select, shape, client.begun)
        begun = await client.run(work, lambda: list(itertools.islice(parts, 2)))
        if len(begun) < 2:
            return Response(b"".join(begun), media_type=shape.content_type)
        following = partial(self._admission.run_started, WorkClass.PULL, principal, next, parts, None)
        release = partial(self._admission.release, parts.close)
        return PullResponse(begun, following, release, ends_at, shape.content_type)

    def _parts(
        self, select: TransientSelect, shape: ResponseFormat, begun: Callable[[Process], object]
    ) -> Generator[bytes, None, None]:
        """The text batch by batch. The last batch includes the end, and is sent after the snapshot is released."""
        buffered, count, failure = shape.begin(ResponseHeader.of(select, self._name(select))), 0, None
        with self._node.pull_queries.execute(select, begun) as answer:
            try:
                for rows in answer.batches:
                    if count:
                        yield buffered
                        buffered = b""
                    buffered += shape.rows(rows)
                    count += len(rows)
                    charge_rows(len(rows))
            except HeadraceError as error:
                if not count:
                    raise
                failure = error
        yield buffered + shape.end(None if failure or is_table(select) else _message(select, count), failure)

    # -- push queries -----------------------------------------------------------------------------------------------

    async def _pushed(
        self, select: TransientSelect, shape: ResponseFormat, principal: str, *, from_beginning: bool
    ) -> Response:
        head = ResponseHeader.of(select, self._name(select, shared=not from_beginning))
        subscribe = partial(self._node.push_queries.subscribe, select, from_beginning=from_beginning)
        return await self._going(head, shape, principal, subscribe)

    async def _printed(self, printing: TopicPrinter, shape: ResponseFormat, principal: str) -> Response:
        head = ResponseHeader.of_records(f"print_{next(self._numbers)}", printing.formats)
        return await self._going(head, shape, principal, partial(self._node.push_queries.print, printing))

    async def _going(
        self, head: ResponseHeader, shape: ResponseFormat, principal: str, subscribe: Callable[..., PushSubscription]
    ) -> Response:
        """Subscribe before the response starts, so that the client misses nothing."""
        news = asyncio.Event()
        subscribed = partial(subscribe, notify=thread_safe_setter(news))
        with ExitStack() as entered:
            entered.enter_context(open_stream())
            reader = await self._admission.run(WorkClass.PUSH, principal, subscribed)
            ending = entered.pop_all()
        self._open[head.query] = reader, principal

        def close() -> None:
            del self._open[head.query]
            self._node.push_queries.unsubscribe(reader)
            ending.close()

        return PushResponse(_events(reader, news, shape, shape.begin(head)), close, shape.content_type)

    def _name(self, select: TransientSelect, *, shared: bool = False) -> str:
        """The name of a query. ksqlDB calls push queries that share their work scalable."""
        begun = "SCALABLE_PUSH_QUERY" if select.push and shared and is_stateless(select) else select.query.id
        return f"{begun}_{next(self._numbers)}"


class PullResponse(StreamingResponse):
    """Streams a pull query. If the client does not read it in time, or disconnects, the snapshot is released."""

    def __init__(
        self,
        begun: list[bytes],
        following: Callable[[], Awaitable[bytes | None]],
        release: Callable[[], Awaitable[None]],
        ends_at: float,
        content_type: str,
    ) -> None:
        super().__init__(_all_parts(begun, following), media_type=content_type)
        self._release, self._ends_at = release, ends_at

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # An anyio scope waits for the thread that may be computing a part; an asyncio timeout does not.
        try:
            with anyio.CancelScope(deadline=self._ends_at) as reading:
                await super().__call__(scope, receive, send)
            if reading.cancelled_caught:  # without its end, the server closes the connection
                _logger.warning(
                    "a client did not read a response within query.pull_timeout and %g s, so it was closed",
                    PULL_READ_GRACE,
                )
        finally:
            with anyio.CancelScope(shield=True), suppress(ValueError):  # at server stop the thread may still run
                await self._release()


async def _all_parts(begun: list[bytes], following: Callable[[], Awaitable[bytes | None]]) -> AsyncIterator[bytes]:
    for part in begun:
        yield part
    while (part := await following()) is not None:
        yield part


class PushResponse(StreamingResponse):
    """Streams until the client disconnects; the subscription is then closed in any case."""

    def __init__(self, parts: AsyncIterator[bytes], close: Callable[[], None], content_type: str) -> None:
        super().__init__(parts, media_type=content_type)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


async def _events(
    reader: PushSubscription, news: asyncio.Event, shape: ResponseFormat, begin: bytes
) -> AsyncIterator[bytes]:
    yield begin
    async for rows in subscription_rows(reader, news):
        charge_rows(len(rows))
        yield shape.rows(rows)
    yield shape.end(LIMIT_REACHED if reader.failure is None else None, reader.failure)


def _message(select: TransientSelect, count: int) -> str:
    return LIMIT_REACHED if select.limit is not None and count >= select.limit else QUERY_COMPLETED
