"""A list of entries sorted by time, in a store; joins use it to expire entries.

The entries are in pages of one time span each, so that a change writes a page and not everything. Taking from the early
end costs time in proportion to what is taken.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import itemgetter
from typing import Any

from headrace.plan.steps import Store

Entry = tuple[int, bytes, Any]
"""Time, order among entries of the same time, and the subject."""

_TIME = itemgetter(0)
_PLACE = itemgetter(0, 1)
_PAGES = ()
"""Store key of the sorted page numbers; a page is under (number,)."""


class Timeline:
    """A sorted list of entries that lives in the store."""

    def __init__(self, store: Store, span: int) -> None:
        self._store = store
        self._span = max(span, 1)

    def add(self, entry: Entry) -> None:
        number = (entry[0] // self._span,)
        page = self._store.get(number)
        if page is None:
            page = []
            pages = self._store.get(_PAGES, [])
            insort(pages, number[0])
            self._store[_PAGES] = pages
        insort(page, entry, key=_PLACE)
        self._store[number] = page

    def take(self, until: int) -> list[Entry]:
        """Removes and returns the entries up to that time, which is included."""
        pages = self._store.get(_PAGES)
        if not pages or pages[0] * self._span > until:
            return []
        entries: list[Entry] = []
        while pages and pages[0] * self._span <= until:
            if not self._take_from_page(pages, until, entries):
                break
        self._store[_PAGES] = pages
        return entries

    def _take_from_page(self, pages: list[int], until: int, entries: list[Entry]) -> bool:
        """Takes entries from the first page; False if some remain on it."""
        page = self._store[(pages[0],)]
        cut = bisect_right(page, until, key=_TIME)
        entries += page[:cut]
        if cut < len(page):
            self._store[(pages[0],)] = page[cut:]
            return False
        del self._store[(pages.pop(0),)]
        return True

    def first(self) -> int | None:
        """Returns the earliest time."""
        pages = self._store.get(_PAGES)
        return self._store[(pages[0],)][0][0] if pages else None

    def last(self) -> int:
        """Returns the latest time; a time long ago if there is none."""
        pages = self._store.get(_PAGES)
        return self._store[(pages[-1],)][-1][0] if pages else -(1 << 62)
