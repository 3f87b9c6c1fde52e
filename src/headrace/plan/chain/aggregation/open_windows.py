"""Index of the open windows by their start, so that closing windows needs no search.

Windows of many keys begin together, so there are few starts; the windows of one start are stored together, unordered.
They are split into pieces, so that opening a window among a million others writes one piece and not all of them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.plan.steps import Store

Place = tuple[Any, int]
"""Where a window's state is stored: its key and its start."""

_STARTS = ()
"""Store key of the sorted starts. The last windows of a start are under (start,), full pieces of them under (start, 1),
(start, 2) ..., and the number of these pieces under (start, 0).
"""

PIECE_SIZE = 256


class OpenWindows:
    def __init__(self, store: Store) -> None:
        self._store = store

    def note(self, places: Iterable[Place]) -> None:
        """Adds opened windows."""
        opened: defaultdict[int, list[Place]] = defaultdict(list)
        for place in places:
            opened[place[1]].append(place)
        for start, those in opened.items():
            self._store[(start,)] = self._store_pieces(start, [*self._windows_of(start), *those])

    def take(self, until: int) -> Iterable[Place]:
        """Removes and returns the windows that began at or before `until`."""
        starts = self._store.get(_STARTS, [])
        cut = bisect_right(starts, until)
        if cut:
            self._store[_STARTS] = starts[cut:]
        return [place for start in starts[:cut] for piece in self._pieces(start) for place in piece]

    def last(self) -> int:
        """Returns the latest start; a time long ago if no window is open."""
        starts = self._store.get(_STARTS)
        return starts[-1] if starts else -(1 << 62)

    def _windows_of(self, start: int) -> list[Place]:
        if (start,) not in self._store:
            starts = self._store.get(_STARTS, [])
            insort(starts, start)
            self._store[_STARTS] = starts
        return self._store.get((start,), [])

    def _store_pieces(self, start: int, places: list[Place]) -> list[Place]:
        """Stores whole pieces; returns the remaining places."""
        if len(places) < PIECE_SIZE:
            return places
        full, number = len(places) // PIECE_SIZE, self._store.get((start, 0), 0)
        for at in range(full):
            self._store[(start, number + at + 1)] = places[at * PIECE_SIZE : (at + 1) * PIECE_SIZE]
        self._store[(start, 0)] = number + full
        return places[full * PIECE_SIZE :]

    def _pieces(self, start: int) -> Iterator[list[Place]]:
        """Removes and yields the pieces of a start."""
        for number in range(self._store.pop((start, 0), 0)):
            yield self._store.pop((start, number + 1))
        yield self._store.pop((start,))
