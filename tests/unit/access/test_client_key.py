from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis.strategies import integers, ip_addresses, text

from headrace.access.client_key import LOOPBACK, client_key


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"])
def test_all_loopback_addresses_are_one_client(address: str) -> None:
    assert client_key(address) == LOOPBACK


@given(integers(0, (1 << 24) - 1))
def test_the_whole_loopback_network_is_one_client(host: int) -> None:
    assert client_key(str(IPv4Address((127 << 24) + host))) == LOOPBACK


@given(ip_addresses(v=4))
def test_a_mapped_address_is_its_ipv4_address(address: IPv4Address) -> None:
    mapped = IPv6Address((0xFFFF << 32) + int(address))
    assert client_key(str(mapped)) == client_key(mapped.exploded) == client_key(str(address))


@given(ip_addresses(v=4), ip_addresses(v=4))
def test_other_ipv4_addresses_are_other_clients(one: IPv4Address, other: IPv4Address) -> None:
    same = one == other or (one.is_loopback and other.is_loopback)
    assert (client_key(str(one)) == client_key(str(other))) == same


@given(ip_addresses(v=6, network="2000::/3"), integers(0, (1 << 64) - 1))
def test_all_addresses_of_an_ipv6_network_are_one_client(address: IPv6Address, host: int) -> None:
    neighbour = IPv6Address((int(address) >> 64 << 64) + host)
    assert client_key(str(neighbour)) == client_key(str(address))
    assert client_key(str(IPv6Address(int(address) ^ (1 << 64)))) != client_key(str(address))


def test_neighbours_on_a_link_are_different_clients() -> None:
    assert client_key("fe80::1%eth0") != client_key("fe80::2%eth0")


@given(text())
def test_any_text_is_some_client(address: str) -> None:
    assert client_key(address) == client_key(address)
