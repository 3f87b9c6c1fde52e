"""The work for one client: what waits when the client goes away is cancelled, and what runs is ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from starlette.requests import Request

from headrace.control.serving.processes import Process
from headrace.errors import QueryKilled
from headrace.serve.admission.admission import Admission
from headrace.serve.admission.work_class import WorkClass

Result = TypeVar("Result")


class ClientWork:
    """Runs the work of a request, before its response begins."""

    def __init__(self, request: Request, admission: Admission, principal: str) -> None:
        self._admission, self._principal = admission, principal
        self._receive = request.receive
        self._disconnected: asyncio.Future[Any] | None = None
        self._has_left = threading.Event()
        self._processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._disconnected is not None:
            self._disconnected.cancel()

    def begun(self, process: Process) -> None:
        """The work is executed as this process; called by its thread."""
        self._processes.append(process)
        if self._has_left.is_set():
            process.kill(_left())

    async def run(self, work: WorkClass, do: Callable[[], Result]) -> Result:
        """Call a function on a thread of the class, unless the client goes away before its turn."""
        disconnected = self._disconnected or asyncio.ensure_future(self._disconnect())
        self._disconnected = disconnected
        has_begun = threading.Event()

        def begin() -> Result:
            has_begun.set()
            if self._has_left.is_set():
                raise _left()
            return do()

        working = asyncio.ensure_future(self._admission.run(work, self._principal, begin))
        try:
            await asyncio.wait({working, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self._leave()
                if not has_begun.is_set():  # if it begins now, it sees that the client has left
                    raise _left()
            return await working
        finally:
            working.cancel()

    async def _disconnect(self) -> None:
        """Return when the client has gone away. The request may have a body that nobody reads."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _leave(self) -> None:
        self._has_left.set()
        for process in list(self._processes):
            process.kill(_left())


def _left() -> QueryKilled:
    return QueryKilled("the client went away", fix="send the query again")
