"""Applies the quotas of users: refuses requests above a quota, and slows down bodies and responses that go on."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import HTTPConnection

from headrace.errors import TooManyRequests
from headrace.serve.admission.quotas import USAGE, Quotas, Usage
from headrace.serve.authentication import refusal
from headrace.serve.caller import request_share

_FREE = ("/healthcheck", "/metrics")
_LONGEST_PAUSE = 1.0  # seconds between two parts of a response


class QuotaMiddleware:
    """Behind authentication, which knows the principal."""

    def __init__(self, app: Any, quotas: Quotas) -> None:
        self._app, self._quotas = app, quotas

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        usage = self._usage(scope)
        if usage is None:
            await self._app(scope, receive, send)
            return
        try:
            usage.begin_request()
        except TooManyRequests as error:
            self._quotas.refused += 1
            await refusal(error, scope)(scope, receive, send)
            return
        USAGE.set(usage)
        await self._app(scope, _receiving(receive, usage), _sending(send, usage))

    def _usage(self, scope: Any) -> Usage | None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in _FREE:
            return None
        return self._quotas.usage(request_share(HTTPConnection(scope)))


def _receiving(receive: Any, usage: Usage) -> Any:
    async def receiving() -> Any:
        message = await receive()
        if size := len(message.get("body") or message.get("bytes") or message.get("text") or b""):
            usage.charge("quota.bytes_in_per_second", size)
            if message.get("more_body"):
                await _pause(usage)
        return message

    return receiving


def _sending(send: Any, usage: Usage) -> Any:
    async def sending(message: Any) -> None:
        await send(message)
        if size := len(message.get("body") or message.get("bytes") or message.get("text") or b""):
            usage.charge("quota.bytes_out_per_second", size)
            if message.get("more_body") or message["type"] == "websocket.send":
                await _pause(usage)

    return sending


async def _pause(usage: Usage) -> None:
    if (wait := usage.wait_seconds()) > 0:
        await asyncio.sleep(min(wait, _LONGEST_PAUSE))
