"""Connections to the outside that cannot be led inside.

Who may write a statement may name any URL, so a server that follows it could be made to speak to machines that only it
can reach: itself, its neighbours, the metadata service of a cloud. A name is therefore resolved here, each address
looked at, and the connection made to an address that was looked at: one that a name gets later does not count. Private
addresses are only reached if setting `webhook_private` lists them.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from headrace.deliver.contract import later
from headrace.errors import BadSetting, DeliveryRefused

_NAT64 = IPv6Network("64:ff9b::/96")
_GIVEN_OUT = IPv6Network("2000::/3")
"""Where all IPv6 addresses of the internet are; others lead to a neighbour, or to an address of the older kind."""
_INSIDE = frozenset((IPv4Address("168.63.129.16"),))
"""Looks like the internet, and is the machine's own cloud."""
Address = IPv4Address | IPv6Address


def connected(host: str, port: int, listed: str, timeout: float) -> socket.socket:
    """A connection to an address of the host that may be reached."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise later(f'"{host}" has no address: {error}') from error
    addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
    allowed = [address for address in addresses if may_reach(host, address, listed)]
    if not allowed:
        raise DeliveryRefused(
            f'"{host}" is a private address ({", ".join(addresses)})',
            fix='list it in setting "webhook_private" if messages are meant to go there',
        )
    return _first(host, port, allowed, timeout)


def _first(host: str, port: int, addresses: list[str], timeout: float) -> socket.socket:
    reason: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout)
        except OSError as error:
            reason = error
    raise later(f'"{host}" cannot be reached: {reason}') from reason


def may_reach(host: str, address: str, listed: str) -> bool:
    """Whether it is an address of the internet, or one that is listed, as a network or by the host's name."""
    inner = _innermost(ip_address(address.partition("%")[0]))
    if _is_public(inner):
        return True
    return any(_is_listed(host, inner, entry.strip()) for entry in listed.split(",") if entry.strip())


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _GIVEN_OUT:
        return False
    return address.is_global and not address.is_multicast and address not in _INSIDE


def _innermost(address: Address) -> Address:
    """The address of the older kind that one of the newer stands for, where it does."""
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
            raise BadSetting(f'setting "webhook_private" names no network: {entry}', fix="write 10.1.0.0/16") from None
        return False
