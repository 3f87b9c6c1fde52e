"""Browser sessions. Only a hash of each cookie is stored, in memory: a restart ends all sessions.

Each session has a second token (CSRF), which pages send in a header with every change: a foreign page can make the
browser send the cookie, but cannot read that token.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.access.principal import Principal

_MAX_SESSIONS = 10_000


@dataclass(frozen=True)
class Session:
    principal: Principal
    csrf: str
    ends_at: float

    def allows(self, csrf: str | None) -> bool:
        return csrf is not None and hmac.compare_digest(csrf.encode(), self.csrf.encode())


class Sessions:
    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._open: dict[bytes, Session] = {}

    def begin(self, principal: Principal, seconds: float) -> tuple[str, Session]:
        """Returns the cookie's value and the session."""
        cookie = secrets.token_urlsafe(32)
        session = Session(principal, secrets.token_urlsafe(32), self._now() + seconds)
        with self._lock:
            self._open = {key: one for key, one in self._open.items() if one.ends_at > self._now()}
            while len(self._open) >= _MAX_SESSIONS:
                del self._open[min(self._open, key=lambda key: self._open[key].ends_at)]
            self._open[_hash(cookie)] = session
        return cookie, session

    def find(self, cookie: str) -> Session | None:
        session = self._open.get(_hash(cookie))
        return session if session is not None and session.ends_at > self._now() else None

    def end(self, cookie: str) -> None:
        with self._lock:
            self._open.pop(_hash(cookie), None)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode(errors="surrogatepass")).digest()
