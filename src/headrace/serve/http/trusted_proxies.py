"""Requests that a trusted proxy forwards: their client's address and scheme are in the headers of the proxy.

Only proxies that the setting `server.trusted_proxies` names are believed. What they forward never counts as local, with
or without these headers, so its client must authenticate.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from headrace.errors import BadSetting

Networks = tuple[IPv4Network | IPv6Network, ...]
PROXIED = "headrace.proxied"
"""Key in the scope of a request from a trusted proxy."""
PROXY_HEADERS = frozenset((b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"))
"""Headers in which a proxy names its client. From a proxy that is not trusted they only say that there is one."""


def parse_networks(setting: str) -> Networks:
    """The addresses and networks of `server.trusted_proxies`."""
    try:
        return tuple(ip_network(entry.strip()) for entry in setting.split(",") if entry.strip())
    except ValueError as error:
        raise BadSetting(
            f'setting "server.trusted_proxies" is not a list of addresses and networks: {error}',
            fix="separate them by commas, as in 127.0.0.1, 10.1.0.0/16",
        ) from None


def is_proxy(address: str, networks: Networks) -> bool:
    """Whether an address is one of a trusted proxy."""
    parsed = _address(address) if networks else None
    return parsed is not None and any(parsed in network for network in networks)


class TrustedProxies:
    """Passes requests from proxies to `forwarded`, with the address of their client, and all others to `direct`."""

    def __init__(self, direct: Any, forwarded: Any, networks: Networks) -> None:
        self._direct = direct
        self._networks = networks
        self._forwarded = ProxyHeadersMiddleware(_CheckedClient(forwarded), [str(one) for one in networks])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or not self._is_proxy(scope.get("client")):
            await self._direct(scope, receive, send)
            return
        scope[PROXIED] = scope["client"]
        await self._forwarded(scope, receive, send)

    def _is_proxy(self, peer: tuple[str, int] | None) -> bool:
        return peer is not None and is_proxy(peer[0], self._networks)


class _CheckedClient:
    """A proxy that sends something else than an address stands for its clients itself."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if _address(scope["client"][0]) is None:
            scope["client"] = scope[PROXIED]
        await self._app(scope, receive, send)


def _address(text: str) -> Any:
    try:
        return ip_address(text)
    except ValueError:
        return None
