"""Detects requests that were forwarded by a proxy."""

from __future__ import annotations

PROXY_HEADERS = frozenset((b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"))
"""Headers in which a proxy names its client."""
