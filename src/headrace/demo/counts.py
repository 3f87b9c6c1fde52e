"""Clicks per page and second, as the push query returns them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field

SECOND = 1_000  # ms
_HISTORY = 120  # seconds that are kept


@dataclass
class ClickCounts:
    """The latest counts of the last two minutes by second; `total` covers all seconds, `changes` counts the rows."""

    total: int = 0
    changes: int = 0
    seconds: dict[int, dict[str, tuple[int, float]]] = field(default_factory=lambda: defaultdict(dict))
    """Clicks and mean dwell of each page, by the start of the second in ms."""

    def add(self, row: bytes) -> None:
        """Process a row of the push query, which replaces the earlier row of its page and second."""
        page, second, views, dwell = json.loads(row)
        pages = self.seconds[second]
        self.total += views - pages.get(page, (0, 0.0))[0]
        self.changes += 1
        pages[page] = views, dwell
        for old in sorted(self.seconds)[:-_HISTORY]:
            del self.seconds[old]

    @property
    def last_full_second(self) -> int | None:
        """The latest second that gets no more clicks: the one before the newest."""
        return max(self.seconds) - SECOND if len(self.seconds) > 1 else None

    def views(self, page: str, second: int) -> int:
        return self.seconds.get(second, {}).get(page, (0, 0.0))[0]

    def mean_dwell(self, page: str, second: int) -> float:
        return self.seconds.get(second, {}).get(page, (0, 0.0))[1]

    def history(self, page: str, length: int) -> list[int]:
        """The page's clicks in the last full seconds, the latest last."""
        last = self.last_full_second
        return [] if last is None else [self.views(page, last - SECOND * back) for back in reversed(range(length))]
