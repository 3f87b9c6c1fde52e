"""One-time links that log a browser in. Only a hash of each key is stored, in memory, until it is used or too old.

key = links.create(LOCAL)
links.use(key)      the principal; None the second time
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable

from headrace.access.principal import Principal

LINK_SECONDS = 600.0
"""How long a link is valid if nobody uses it."""
_MAX_LINKS = 100


class LoginLinks:
    """Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._open: dict[bytes, tuple[Principal, float]] = {}
        """By hash of the key, oldest first: the principal, and when the link ends."""

    def create(self, principal: Principal) -> str:
        """Returns the key of a new link."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            if len(self._open) >= _MAX_LINKS:
                del self._open[next(iter(self._open))]
            self._open[_hash(key)] = principal, self._now() + LINK_SECONDS
        return key

    def use(self, key: str) -> Principal | None:
        """The principal of a valid link, which ends with that."""
        with self._lock:
            principal, ends_at = self._open.pop(_hash(key), (None, 0.0))
        return principal if ends_at > self._now() else None


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()
