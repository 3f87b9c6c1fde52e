"""Divides the time of the event loop fairly among principals.

The event loop does a little for every message: it parses a request, renders a part of a response. Clients without
pauses make that more than the loop can do, and then everybody would wait for the whole crowd. Therefore each message
takes a turn. While a round of the loop is short, turns are free. When it gets long, further messages wait for the next
rounds, which take them from each principal in turn: a principal with a single request waits for about one round,
however many the others send.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from headrace.access.authorization import NO_RIGHTS
from headrace.turn_queue import TurnQueue

_ROUND_SECONDS = 0.003  # more makes everybody wait longer, less wastes time between the rounds
_MAX_TURNS = 64  # that are granted in a round
_FREE = ("/healthcheck", "/metrics")
Waiter = asyncio.Future[None]


class EventLoopShare:
    """Event loop only."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._round_began: float | None = None
        self._granted = 1
        """Turns at the begin of the current round."""
        self._waiting = TurnQueue[Waiter]()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def turn(self, principal: str) -> None:
        """Return when it is the principal's turn: at once, unless the loop is busy."""
        if not self._waiting and self._has_time():
            return
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(principal, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            self._waiting.discard(principal, waiter)
            raise

    def _has_time(self) -> bool:
        now = self._now()
        if self._round_began is None:
            self._begin_round(now)
            return True
        return now - self._round_began < _ROUND_SECONDS

    def _begin_round(self, now: float) -> None:
        self._round_began = now
        asyncio.get_running_loop().call_soon(self._end_round)

    def _end_round(self) -> None:
        """Runs after everything that the round has made ready."""
        now, began = self._now(), self._round_began
        self._round_began = None
        if self._waiting:
            is_long = began is not None and now - began > _ROUND_SECONDS
            self._granted = max(1, self._granted // 2) if is_long else min(_MAX_TURNS, self._granted + 1)
            for _ in range(self._granted):
                self._grant_next()
            self._begin_round(now)

    def _grant_next(self) -> None:
        if (principal := self._waiting.next_user()) is not None:
            waiter = self._waiting.take(principal)
            if not waiter.done():
                waiter.set_result(None)


class EventLoopShareMiddleware:
    """Behind authentication, which knows the principal. Health checks wait for nobody."""

    def __init__(self, app: Any, share: EventLoopShare) -> None:
        self._app, self._share = app, share

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in _FREE:
            await self._app(scope, receive, send)
            return
        principal = scope.get("rights", NO_RIGHTS).principal.name

        async def receiving() -> Any:
            message = await receive()
            if message.get("more_body") or message["type"] == "websocket.receive":
                await self._share.turn(principal)
            return message

        async def sending(message: Any) -> None:
            if message.get("more_body") or message["type"] == "websocket.send":
                await self._share.turn(principal)
            await send(message)

        await self._share.turn(principal)
        await self._app(scope, receiving, sending)
