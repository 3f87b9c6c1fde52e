"""Repeatable UUID, RANDOM and current time: derived from the current record and its batch's time.

A function that returned something new at each call would return something else when a batch is computed again after a
crash. So the caller that feeds a chain whose plan calls such a function sets a *replay context*: the record of the
query, or the tick. Random values are derived from that and from the number of values drawn before in it. The same
records in the same order give the same results, now and in a replay.

Outside a query (INSERT VALUES) there is no replay context: then the values are random and the time is the clock's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b

_SIZE = 16


class ReplayContext:
    """`clock` returns the time in ms, the same in each replay; None: the record's time."""

    def __init__(self, query: str, clock: Callable[[], int | None]) -> None:
        self._root = self._seed = _digest(b"", query)
        self._clock = clock
        self._draws = 0
        self._now = 0

    @contextmanager
    def record(self, topic: str, partition: int, offset: int, time: int) -> Iterator[None]:
        """Enters the context of a record. It depends only on the record's position, not on its batch."""
        self._begin(_digest(self._root, topic, partition, offset), time)
        with self._current():
            yield

    @contextmanager
    def moment(self, what: str, time: int | None = None) -> Iterator[None]:
        """Enters the context of an event without a record, which also depends on what came before it."""
        self._begin(_digest(self._seed, what, time, self._clock()), self._now if time is None else time)
        with self._current():
            yield

    def draw(self) -> bytes:
        """Returns 16 bytes that are unpredictable, and the same on every replay."""
        self._draws += 1
        return _digest(self._seed, self._draws)

    @property
    def now(self) -> int:
        return self._now

    def _begin(self, seed: bytes, time: int) -> None:
        clock_time = self._clock()
        self._seed, self._draws, self._now = seed, 0, time if clock_time is None else clock_time

    @contextmanager
    def _current(self) -> Iterator[None]:
        before = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(before)


_CURRENT: ContextVar[ReplayContext | None] = ContextVar("context", default=None)


def _digest(seed: bytes, *parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=_SIZE, key=seed).digest()


def random_bytes() -> bytes:
    """Returns 16 random bytes, repeatable inside a replay context."""
    context = _CURRENT.get()
    return os.urandom(_SIZE) if context is None else context.draw()


def now() -> int:
    """Returns the current time in ms."""
    context = _CURRENT.get()
    return time.time_ns() // 1_000_000 if context is None else context.now
