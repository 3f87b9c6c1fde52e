"""Who may have a server execute Python. Over a proxy everybody seems to be on this machine; proxies say for whom they
ask."""

from __future__ import annotations

from ipaddress import ip_address

from starlette.requests import Request

from headrace.errors import BadSetting, CodeRefused
from headrace.settings import Settings

_HERE, _ANYWHERE, _NOWHERE = "here", "anywhere", "nowhere"
_PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


def check_code_from(request: Request, settings: Settings) -> None:
    allowed = settings.code_from
    if allowed not in (_HERE, _ANYWHERE, _NOWHERE):
        raise BadSetting(f'setting "code_from" cannot be "{allowed}"', fix=f"choose {_HERE}, {_ANYWHERE} or {_NOWHERE}")
    if allowed == _NOWHERE:
        raise CodeRefused("this server takes no code", fix='its setting "code_from" says so')
    if allowed == _HERE and not _is_here(request):
        raise CodeRefused(
            "this server takes code only from programs on its own machine",
            fix='send it from there, or start the server with code_from = "anywhere"',
        )


def _is_here(request: Request) -> bool:
    client = request.client
    return (
        client is not None
        and ip_address(client.host).is_loopback
        and not any(header in request.headers for header in _PROXIED)
    )
