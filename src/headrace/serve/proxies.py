"""How a proxy is known."""

from __future__ import annotations

PROXIED = frozenset((b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"))
"""Headers by which it says for whom it asks."""
