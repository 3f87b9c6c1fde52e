"""What UUID, RANDOM and the time of day are made of: the record that is being looked at, and its batch's time.

A function that gave something new at each call would give something else when a batch is computed again after a crash.
So whoever feeds a chain whose plan calls such a function says on which *occasion*: for which record of which query, or
at which tick. What is drawn follows from that, and from how much was drawn before on the same occasion. The same
records in the same order give the same results, today and in a replay.

Outside of a query (INSERT VALUES) there is no occasion: then chance and the clock decide.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b

_SIZE = 16


class Occasion:
    """Of one query. `clock` tells what time it is, in ms, the same in each repeat; None leaves it to the record."""

    def __init__(self, query: str, clock: Callable[[], int | None]) -> None:
        self._root = self._seed = _digest(b"", query)
        self._clock = clock
        self._drawn = 0
        self._now = 0

    @contextmanager
    def record(self, topic: str, partition: int, offset: int, time: int) -> Iterator[None]:
        """A record is looked at. Where it lies is all that counts, not how it got into this batch."""
        self._begin(_digest(self._root, topic, partition, offset), time)
        with self._current():
            yield

    @contextmanager
    def moment(self, what: str, time: int | None = None) -> Iterator[None]:
        """Something happens without a record: it is known by what came before it, too."""
        self._begin(_digest(self._seed, what, time, self._clock()), self._now if time is None else time)
        with self._current():
            yield

    def draw(self) -> bytes:
        """16 bytes that nobody can foresee, and that are the same each time."""
        self._drawn += 1
        return _digest(self._seed, self._drawn)

    @property
    def now(self) -> int:
        return self._now

    def _begin(self, seed: bytes, time: int) -> None:
        told = self._clock()
        self._seed, self._drawn, self._now = seed, 0, time if told is None else told

    @contextmanager
    def _current(self) -> Iterator[None]:
        before = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(before)


_CURRENT: ContextVar[Occasion | None] = ContextVar("occasion", default=None)


def _digest(seed: bytes, *parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=_SIZE, key=seed).digest()


def drawn() -> bytes:
    """16 bytes, as if by chance."""
    occasion = _CURRENT.get()
    return os.urandom(_SIZE) if occasion is None else occasion.draw()


def now() -> int:
    """What time it is, in ms."""
    occasion = _CURRENT.get()
    return time.time_ns() // 1_000_000 if occasion is None else occasion.now
