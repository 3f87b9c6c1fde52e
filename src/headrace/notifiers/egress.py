"""Opens outgoing connections, guarded against server-side request forgery (SSRF).

A user who may write statements may name any URL, so the server could be made to call hosts that only it can reach:
itself, its neighbours, the metadata service of a cloud. Therefore the host name is resolved here, each address is
checked, and the connection goes to a checked address: a later DNS answer has no effect. Private addresses are reachable
only if setting `notifiers.webhook_allowed_private` lists them.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from headrace.errors import BadSetting, DeliveryRefused
from headrace.notifiers.contract import retry_later

_NAT64 = IPv6Network("64:ff9b::/96")
_GIVEN_OUT = IPv6Network("2000::/3")
"""The range of all public IPv6 unicast addresses; others are link-local or private, or embed an IPv4 address."""
_INSIDE = frozenset((IPv4Address("168.63.129.16"),))
"""Looks public, but is the virtual IP of the Azure host."""
Address = IPv4Address | IPv6Address


def connect(host: str, port: int, allowed_private: str, timeout: float) -> socket.socket:
    """Connect to an allowed address of the host."""
    try:
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise retry_later(f'"{host}" has no address: {error}') from error
    addresses = list(dict.fromkeys(str(place[4][0]) for place in resolved))
    allowed = [address for address in addresses if is_address_allowed(host, address, allowed_private)]
    if not allowed:
        raise DeliveryRefused(
            f'"{host}" is a private address ({", ".join(addresses)})',
            fix='list it in setting "notifiers.webhook_allowed_private" to allow messages to it',
        )
    return _first(host, port, allowed, timeout)


def _first(host: str, port: int, addresses: list[str], timeout: float) -> socket.socket:
    reason: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout)
        except OSError as error:
            reason = error
    raise retry_later(f'"{host}" cannot be reached: {reason}') from reason


def is_address_allowed(host: str, address: str, allowed_private: str) -> bool:
    """Whether the address is public, or is listed by network or by host name."""
    inner = _innermost(ip_address(address.partition("%")[0]))
    if _is_public(inner):
        return True
    return any(_is_listed(host, inner, entry.strip()) for entry in allowed_private.split(",") if entry.strip())


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _GIVEN_OUT:
        return False
    return address.is_global and not address.is_multicast and address not in _INSIDE


def _innermost(address: Address) -> Address:
    """The IPv4 address that an IPv6 address embeds, if any; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


def _is_listed(host: str, address: Address, entry: str) -> bool:
    if entry.lower() == host.lower():
        return True
    try:
        return address in ip_network(entry)
    except ValueError:
        if "/" in entry:
            raise BadSetting(
                f'setting "notifiers.webhook_allowed_private" is not a list of networks: {entry}',
                fix="write, for example, 10.1.0.0/16",
            ) from None
        return False
