"""Which windows are open, by their start, so that none has to be searched for when they close.

Windows of many keys begin together, so there are few starts; the windows of one start lie together and have no order.
They lie in pieces, so that a window opened among a million others writes a piece and not all of them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.plan.chain.contract import Store

Place = tuple[Any, int]
"""Where a window's state lies: under its key and its start."""

_STARTS = ()
"""Where the store holds the sorted starts. The last windows of a start lie under (start,), full pieces of them under
(start, 1), (start, 2) ..., and how many of these there are under (start, 0)."""

PIECE = 256


class Closing:
    def __init__(self, store: Store) -> None:
        self._store = store

    def note(self, places: Iterable[Place]) -> None:
        """These windows have been opened."""
        opened: defaultdict[int, list[Place]] = defaultdict(list)
        for place in places:
            opened[place[1]].append(place)
        for start, those in opened.items():
            self._store[(start,)] = self._put_by(start, [*self._of(start), *those])

    def take(self, until: int) -> Iterable[Place]:
        """Windows that began up to then, that time included; they are no longer noted."""
        starts = self._store.get(_STARTS, [])
        cut = bisect_right(starts, until)
        if cut:
            self._store[_STARTS] = starts[cut:]
        return [place for start in starts[:cut] for piece in self._pieces(start) for place in piece]

    def last(self) -> int:
        """The latest start; long ago if no window is open."""
        starts = self._store.get(_STARTS)
        return starts[-1] if starts else -(1 << 62)

    def _of(self, start: int) -> list[Place]:
        if (start,) not in self._store:
            starts = self._store.get(_STARTS, [])
            insort(starts, start)
            self._store[_STARTS] = starts
        return self._store.get((start,), [])

    def _put_by(self, start: int, places: list[Place]) -> list[Place]:
        """Store what fills whole pieces; gives what is left."""
        if len(places) < PIECE:
            return places
        full, number = len(places) // PIECE, self._store.get((start, 0), 0)
        for at in range(full):
            self._store[(start, number + at + 1)] = places[at * PIECE : (at + 1) * PIECE]
        self._store[(start, 0)] = number + full
        return places[full * PIECE :]

    def _pieces(self, start: int) -> Iterator[list[Place]]:
        """Take out what was noted of a start."""
        for number in range(self._store.pop((start, 0), 0)):
            yield self._store.pop((start, number + 1))
        yield self._store.pop((start,))
