"""How often a password may be tried: after some wrong ones, from one address or for one user, the next must wait.

A user is kept waiting for seconds only, so that nobody can lock another out; an address for a minute. Where a user has
been right before, what others try elsewhere, or under other names from there (behind one proxy, say), does not count:
only what is tried for that user from that address does, again for seconds. What was tried counts from the moment it is
tried, so that many at once are as slow as one after another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.errors import TooManyTries

FREE = 5
"""Wrong ones without a wait."""
_LONGEST_OF_USER, _LONGEST_OF_ADDRESS = 4.0, 60.0  # seconds
_FORGOTTEN = 300.0
_KEPT = 10_000


@dataclass
class Count:
    wrong: int = 0
    last: float = 0.0


class Tries:
    """`now` counts seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], Count] = {}
        self._right: set[tuple[str, str]] = set()
        """Users, and the addresses from which they have shown the right password."""

    @contextmanager
    def one(self, user: str, address: str) -> Iterator[Callable[[], None]]:
        """A try; who calls what this gives says that it was right."""
        if (user, address) in self._right:
            longest = {("both", f"{user}\0{address}"): _LONGEST_OF_USER}
        else:
            longest = {("address", address): _LONGEST_OF_ADDRESS, ("user", user): _LONGEST_OF_USER}
        with self._lock:
            wait = max(self._wait(key, most) for key, most in longest.items())
            if wait > 0:
                error = TooManyTries(
                    f"there were too many wrong passwords; the next one may come in {wait:.0f} s",
                    fix="wait, and try again with the right one",
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
                if len(self._right) >= _KEPT:
                    self._right.clear()
                self._right.add((user, address))

        yield right

    def _wait(self, key: tuple[str, str], longest: float) -> float:
        count = self._counts.get(key)
        if count is None or self._now() - count.last > _FORGOTTEN:
            self._counts.pop(key, None)
            return 0.0
        if count.wrong < FREE:
            return 0.0
        return count.last + min(longest, 2.0 ** min(count.wrong - FREE, 10)) - self._now()

    def _add(self, key: tuple[str, str], change: int) -> None:
        if len(self._counts) > _KEPT:
            oldest = sorted(self._counts, key=lambda one: self._counts[one].last)
            for one in oldest[: _KEPT // 2]:
                del self._counts[one]
        count = self._counts.setdefault(key, Count())
        count.wrong = max(0, count.wrong + change)
        count.last = self._now()
