"""Login throttling: after some wrong passwords, from one address or for one user, the next attempt must wait.

A user waits for seconds only, so that an attacker cannot lock the user out; an address waits for up to a minute. At an
address from which a user has logged in before, failures of other addresses, or of other users at the same address
(behind one proxy, for example), do not count for that user: only failures of that user from that address do, again with
a wait of seconds. An attempt counts from its start, so concurrent attempts are no faster than sequential ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.access.client_key import client_key
from headrace.backoff import Backoff
from headrace.errors import LoginThrottled

FREE_ATTEMPTS = 5
"""Wrong passwords without a wait."""
_LONGEST_OF_USER, _LONGEST_OF_ADDRESS = 4.0, 60.0  # seconds
_FORGET_AFTER = 300.0
_CACHE_SIZE = 10_000


@dataclass
class FailedLogins:
    wrong: int = 0
    last: float = 0.0


class LoginThrottle:
    """`now` returns seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], FailedLogins] = {}
        self._right: set[tuple[str, str]] = set()
        """Users, and the addresses from which they have logged in successfully."""

    @contextmanager
    def one(self, user: str, address: str) -> Iterator[Callable[[], None]]:
        """One login attempt. The caller calls the yielded function if the password was right."""
        address = client_key(address)
        if (user, address) in self._right:
            longest = {("both", f"{user}\0{address}"): _LONGEST_OF_USER}
        else:
            longest = {("address", address): _LONGEST_OF_ADDRESS, ("user", user): _LONGEST_OF_USER}
        with self._lock:
            wait = max(self._wait(key, most) for key, most in longest.items())
            if wait > 0:
                error = LoginThrottled(
                    f"too many wrong passwords; the next attempt is possible in {wait:.0f} s",
                    fix="wait, then try again with the correct password",
                )
                error.seconds = wait
                raise error
            for key in longest:
                self._add(key, 1)

        def right() -> None:
            with self._lock:
                for key in longest:
                    if key[0] == "address":
                        self._add(key, -1)
                    else:
                        self._counts.pop(key, None)
                if len(self._right) >= _CACHE_SIZE:
                    self._right.clear()
                self._right.add((user, address))

        yield right

    def _wait(self, key: tuple[str, str], longest: float) -> float:
        count = self._counts.get(key)
        if count is None or self._now() - count.last > _FORGET_AFTER:
            self._counts.pop(key, None)
            return 0.0
        if count.wrong < FREE_ATTEMPTS:
            return 0.0
        return count.last + Backoff(1.0, longest).pause(count.wrong - FREE_ATTEMPTS + 1) - self._now()

    def _add(self, key: tuple[str, str], change: int) -> None:
        if len(self._counts) > _CACHE_SIZE:
            oldest = sorted(self._counts, key=lambda one: self._counts[one].last)
            for one in oldest[: _CACHE_SIZE // 2]:
                del self._counts[one]
        count = self._counts.setdefault(key, FailedLogins())
        count.wrong = max(0, count.wrong + change)
        count.last = self._now()
