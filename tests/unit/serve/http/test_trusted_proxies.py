"""Headers of trusted proxies name the client; those of anybody else change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.errors import BadSetting
from headrace.serve.caller import is_local_request
from headrace.serve.http.trusted_proxies import TrustedProxies, parse_networks


def _seen(networks: str, peer: str, **headers: str) -> tuple[bool, str, str, bool]:
    """How an application sees a request: as forwarded, its client, its scheme, and as local."""
    seen: list[tuple[bool, str, str, bool]] = []

    def app(forwarded: bool) -> Any:
        async def called(scope: Any, receive: Any, send: Any) -> None:
            seen.append((forwarded, scope["client"][0], scope["scheme"], is_local_request(scope)))

        return called

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "scheme": "http", "client": (peer, 1), "headers": named}
    asyncio.run(TrustedProxies(app(False), app(True), parse_networks(networks))(scope, None, None))
    return seen[0]


def test_a_trusted_proxy_names_the_client_and_the_scheme() -> None:
    headers = {"x_forwarded_for": "198.51.100.7", "x_forwarded_proto": "https"}
    assert _seen("127.0.0.1", "127.0.0.1", **headers) == (True, "198.51.100.7", "https", False)
    assert _seen("10.0.0.0/8, ::1", "10.1.2.3", **headers) == (True, "198.51.100.7", "https", False)
    assert _seen("10.0.0.0/8, ::1", "::1", **headers) == (True, "198.51.100.7", "https", False)


def test_of_several_proxies_the_first_that_is_not_trusted_is_the_client() -> None:
    headers = {"x_forwarded_for": "127.0.0.1, 203.0.113.9, 10.0.0.2"}
    assert _seen("10.0.0.0/8", "10.0.0.1", **headers)[1] == "203.0.113.9"


def test_requests_of_a_trusted_proxy_are_never_local() -> None:
    for headers in ({}, {"x_forwarded_for": "127.0.0.1"}, {"x_forwarded_for": ""}, {"x_forwarded_for": "::1"}):
        assert _seen("127.0.0.1", "127.0.0.1", **headers)[3] is False


def test_headers_of_other_peers_name_nobody() -> None:
    headers = {"x_forwarded_for": "127.0.0.1", "x_forwarded_proto": "https"}
    assert _seen("10.0.0.0/8", "192.0.2.1", **headers) == (False, "192.0.2.1", "http", False)
    assert _seen("10.0.0.0/8", "127.0.0.1", **headers) == (False, "127.0.0.1", "http", False)
    assert _seen("10.0.0.0/8", "127.0.0.1") == (False, "127.0.0.1", "http", True)


@pytest.mark.parametrize("given", ["unknown", "a\x1b[2J", "198.51.100.7.evil", "x" * 5_000, "[::1"])
def test_a_client_without_an_address_has_that_of_its_proxy(given: str) -> None:
    assert _seen("10.0.0.0/8", "10.0.0.1", x_forwarded_for=given)[1] == "10.0.0.1"


@pytest.mark.parametrize("setting", ["localhost", "10.0.0.0/33", "*", "10.0.0.1/8"])
def test_other_settings_are_refused(setting: str) -> None:
    with pytest.raises(BadSetting, match="trusted_proxies"):
        parse_networks(setting)
    assert parse_networks(" ") == ()
