"""Checks whether a server may accept Python code from the sender of a request."""

from __future__ import annotations

from starlette.requests import Request

from headrace.errors import BadSetting, CodeRefused
from headrace.serve.authentication import is_local_request
from headrace.settings import Settings

_HERE, _ANYWHERE, _NOWHERE = "here", "anywhere", "nowhere"


def check_code_origin(request: Request, settings: Settings) -> None:
    allowed = settings.code_from
    if allowed not in (_HERE, _ANYWHERE, _NOWHERE):
        raise BadSetting(f'setting "code_from" cannot be "{allowed}"', fix=f"choose {_HERE}, {_ANYWHERE} or {_NOWHERE}")
    if allowed == _NOWHERE:
        raise CodeRefused("this server takes no code", fix='its setting "code_from" says so')
    if allowed == _HERE and not is_local_request(request.scope):
        raise CodeRefused(
            "this server takes code only from programs on its own machine",
            fix='send it from there, or start the server with code_from = "anywhere"',
        )
