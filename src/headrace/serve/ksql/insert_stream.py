"""`/inserts-stream`: rows arrive as lines of JSON, and each is acknowledged by a line when it is durable.

The first line names the target. Lines that arrive together are appended together. A row that is refused is reported,
and does not block the others. Over HTTP/2, rows and acknowledgements flow in both directions at once. Lines count
towards the budget for bodies until they are appended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.control.node import Node
from headrace.errors import BadRequest, HeadraceError
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.quotas import charge_rows
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.caller import audit_refusal, request_rights, request_share
from headrace.serve.http.request_body import ArrivalTimer, BodyBudget
from headrace.serve.ksql.errors import error_document, error_response
from headrace.serve.ksql.response_formats import ARRAY, LINES

MAX_LINE_BYTES = 16 << 20
"""Maximum bytes of a line."""
MAX_BATCH_ROWS, MAX_BATCH_BYTES = 10_000, 4 << 20
"""Maximum lines that are appended together, and their bytes (approximate)."""
ReserveBytes = Callable[[int], None]
"""Reserves bytes of the budget, or releases them by a negative count."""
InsertLines = Callable[[list[bytes]], Awaitable[Mapping[int, HeadraceError]]]
"""Appends rows, and returns the errors of those that are refused, by their number."""
_EXAMPLE = 'the first line is {"target": "STREAM"}, each other one row: {"ID": 1, "NAME": "x"}'


def insert_stream_endpoint(
    node: Node, budget: BodyBudget, admission: Admission
) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        return InsertStreamResponse(node, budget, admission, request)

    return answered


class InsertStreamResponse(Response):
    """Holds one share of the body budget for its whole duration: rows arrive after the response has started."""

    def __init__(self, node: Node, budget: BodyBudget, admission: Admission, request: Request) -> None:
        super().__init__()
        self._node, self._room, self._admission, self._request = node, budget, admission, request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._room.share(request_share(self._request)) as take:
            answer = await self._begun(take)
            await answer(scope, receive, send)

    async def _begun(self, take: ReserveBytes) -> Response:
        node, request, rights = self._node, self._request, request_rights(self._request)
        parts, principal = _lines(request.stream(), take), rights.principal.name
        try:
            self._admission.check(WorkClass.INSERT, principal)
            first, *rest = await anext(parts, [b""])
            take(-len(first))
            begin = partial(node.inserter, _target(first), rights=rights)
            inserter = await self._admission.run(WorkClass.INSERT, principal, begin)
        except HeadraceError as error:
            await audit_refusal(node.guard, self._admission, request, error)
            return error_response(error)
        insert = partial(self._admission.run_started, WorkClass.INSERT, principal, inserter.insert)
        return AcknowledgementResponse(insert, rest, parts, take, as_array=ARRAY in request.headers.get("accept", ""))


async def _lines(stream: AsyncIterator[bytes], take: ReserveBytes) -> AsyncIterator[list[bytes]]:
    """Complete lines, as many as have arrived; their bytes are reserved.

    The first line, and the rest of each line, must arrive in time. Between two lines a client may pause.
    """
    partial_line = bytearray()  # grows in place: a line may arrive byte by byte
    timer: ArrivalTimer | None = ArrivalTimer()
    try:
        while (part := await _next_part(stream, timer, len(partial_line))) is not None:
            take(len(part))
            whole, end, rest = part.rpartition(b"\n")
            if end:
                lines = b"".join((partial_line, whole)).split(b"\n")
                full_lines = [line for line in lines if line.strip()]
                take(_size(full_lines) + len(rest) - len(partial_line) - len(part))
                partial_line = bytearray(rest)
                if full_lines:
                    timer = None
                    yield full_lines
            else:
                partial_line += part
            if partial_line and timer is None:
                timer = ArrivalTimer()
            if len(partial_line) > MAX_LINE_BYTES:
                raise BadRequest(f"a line is longer than {MAX_LINE_BYTES} bytes", fix=_EXAMPLE)
    except ClientDisconnect:
        return
    if partial_line.strip():
        yield [bytes(partial_line)]


async def _next_part(stream: AsyncIterator[bytes], timer: ArrivalTimer | None, received: int) -> bytes | None:
    return await (anext(stream, None) if timer is None else timer.next(stream, received))


def _size(lines: list[bytes]) -> int:
    return sum(map(len, lines))


async def _together(parts: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
    """Combine the lines that arrived while the caller was busy."""
    following = asyncio.ensure_future(anext(parts, None))
    try:
        while (lines := await following) is not None:
            following = asyncio.ensure_future(anext(parts, None))
            size = _size(lines)
            while len(lines) < MAX_BATCH_ROWS and size < MAX_BATCH_BYTES and (more := await _at_hand(following)):
                lines, size = lines + more, size + _size(more)
                following = asyncio.ensure_future(anext(parts, None))
            yield lines
    finally:
        following.cancel()


async def _at_hand(following: asyncio.Future[list[bytes] | None]) -> list[bytes] | None:
    """The next lines if they have arrived, else None; an error is raised when they are awaited."""
    await asyncio.sleep(0)
    return following.result() if following.done() and following.exception() is None else None


def _target(line: bytes) -> str:
    try:
        target = json.loads(line)["target"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadRequest("the first line of the body does not name a target", fix=_EXAMPLE) from error
    return str(target)


class AcknowledgementResponse(Response):
    """Accepts rows while it sends acknowledgements."""

    def __init__(
        self,
        insert: InsertLines,
        first: list[bytes],
        parts: AsyncIterator[list[bytes]],
        take: ReserveBytes,
        *,
        as_array: bool,
    ) -> None:
        super().__init__(media_type=ARRAY if as_array else LINES)
        del self.headers["content-length"]
        self._insert, self._first, self._parts, self._take, self._as_array = insert, first, parts, take, as_array
        self._number = 0
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for text in self._acknowledgements():
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b"]" if self._as_array else b""})

    async def _acknowledgements(self) -> AsyncIterator[bytes]:
        if self._as_array:
            yield b"["
        try:
            if self._first:
                yield await self._appended(self._first)
            async for lines in _together(self._parts):
                yield await self._appended(lines)
        except HeadraceError as error:  # for example, a line that is too long
            yield self._text([json.dumps(error_document(error)[1]).encode()])

    async def _appended(self, lines: list[bytes]) -> bytes:
        """Append the valid rows; returns an acknowledgement or an error for each row."""
        failures = await self._insert(lines)
        charge_rows(len(lines))
        self._take(-_size(lines))
        first, self._number = self._number, self._number + len(lines)
        texts = [b'{"status":"ok","seq":%d}' % number for number in range(first, self._number)]
        for number, failure in failures.items():
            texts[number] = _refusal(first + number, failure)
        return self._text(texts)

    def _text(self, texts: list[bytes]) -> bytes:
        if not self._as_array:
            return b"\n".join([*texts, b""])
        begun, self._begun = self._begun, True
        return (b"," if begun else b"") + b",".join(texts)


def _refusal(number: int, failure: HeadraceError) -> bytes:
    return json.dumps({"status": "error", "seq": number, **error_document(failure)[1]}).encode()
