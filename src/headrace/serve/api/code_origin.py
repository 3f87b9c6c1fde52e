"""Checks whether a server may accept Python code from the sender of a request."""

from __future__ import annotations

from starlette.requests import Request

from headrace.errors import BadSetting, CodeRefused
from headrace.serve.caller import is_local_request
from headrace.settings import Settings

_LOCAL, _ANY, _NONE = "local", "any", "none"


def check_code_origin(request: Request, settings: Settings) -> None:
    allowed = settings.server.accept_code
    if allowed not in (_LOCAL, _ANY, _NONE):
        raise BadSetting(
            f'setting "server.accept_code" cannot be "{allowed}"', fix=f"choose {_LOCAL}, {_ANY} or {_NONE}"
        )
    if allowed == _NONE:
        raise CodeRefused("this server does not accept code", fix='change its setting "server.accept_code"')
    if allowed == _LOCAL and not is_local_request(request.scope):
        raise CodeRefused(
            "this server accepts code only from its own machine",
            fix='send it from there, or set server.accept_code to "any" on the server',
        )
