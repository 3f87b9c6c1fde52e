"""Clients that open connections in a loop."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import psutil
import pytest

from headrace.serve.http import limits
from headrace.serve.http.connections import ConnectionLimits
from headrace.serve.http.http2_budget import AddressBudgets
from headrace.serve.http.server import Server
from headrace.serve.http.trusted_proxies import parse_networks

FLOOD = 2_000
AT_ONCE = 5.0  # seconds, on a busy machine


def admitted(budgets: AddressBudgets, addresses: Iterator[str], now: float) -> int:
    """How many of some connections are admitted at one moment."""
    return sum(budgets.admits_connection(address, now) for address in addresses)


def test_a_client_opens_connections_at_its_rate_whatever_its_addresses() -> None:
    budgets = AddressBudgets(rate=10)
    assert admitted(budgets, (f"2001:db8::{n:x}" for n in range(FLOOD)), 1_000.0) == 50
    assert admitted(budgets, (f"2001:db8::{n:x}" for n in range(FLOOD)), 1_001.0) == 10
    assert budgets.admits_connection("2001:db8:0:1::1", 1_001.0)
    assert budgets.admits_connection("192.0.2.1", 1_001.0)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3"], ids=["loopback", "IPv6", "trusted proxy"])
def test_connections_of_many_clients_have_no_rate(address: str) -> None:
    budgets = AddressBudgets(rate=1, proxies=parse_networks("10.1.0.0/16"))
    assert admitted(budgets, (address for _ in range(FLOOD)), 1_000.0) == FLOOD


def test_no_rate_is_no_limit() -> None:
    assert admitted(AddressBudgets(), ("192.0.2.1" for _ in range(FLOOD)), 1_000.0) == FLOOD


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


def other_address() -> str:
    """An address of this machine that is not loopback."""
    found = [one.address for ones in psutil.net_if_addrs().values() for one in ones if one.family == socket.AF_INET]
    address = next((one for one in found if not one.startswith("127.")), None)
    return address or pytest.skip("this machine has only loopback addresses")


def test_one_client_that_opens_connections_in_a_loop_does_not_stop_another() -> None:
    host, before = other_address(), limits.REJECTIONS["new-connections"]
    with Server(app, host="0.0.0.0", limits=ConnectionLimits(new=1)).running() as server:
        slowest, served, refusals = 0.0, 0, set[bytes]()
        for number in range(FLOOD):
            with suppress(ConnectionResetError), closing(socket.create_connection((host, server.port), 30)) as wire:
                wire.sendall(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
                if number % 100 == 0:
                    refusals.add(wire.recv(65536).split(b"\r\n")[0])
            if number % 100 == 0:
                began = time.monotonic()
                with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as one:
                    one.request("GET", "/")
                    served += one.getresponse().status == 200
                slowest = max(slowest, time.monotonic() - began)
    assert limits.REJECTIONS["new-connections"] - before > FLOOD // 2
    assert b"HTTP/1.1 503 Service Unavailable" in refusals
    assert (served, slowest < AT_ONCE) == (FLOOD // 100, True)
