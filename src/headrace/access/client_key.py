"""Says which client an address is. Everything that limits or counts clients by their addresses asks this function.

A client has all addresses of 127.0.0.0/8 and ::1, and all of an IPv6 /64, so it gains nothing by using several.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

LOOPBACK = "loopback"
"""The client that all programs of the server's own machine are."""
_PREFIX = 64


@lru_cache(4096)
def client_key(address: str) -> str:
    """The client that has an address. A text that is no address is a client of its own."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if parsed.is_loopback:
        return LOOPBACK
    if isinstance(parsed, IPv4Address) or parsed.is_link_local:  # all neighbours share one link-local /64
        return str(parsed)
    return str(ip_network((int(parsed), _PREFIX), strict=False))
