"""GROUP BY with sliding windows: every row ends a window that reaches back by the size.

The window of a row at time t holds the group's rows of (t - size, t]; as bounds that is [t - size + 1, t + 1). Rows of
one time share one. A row that comes out of order ends its own window and counts in those of the rows after it, less
than the size away, which come out again, the earliest first. A result's time is that of the window's last row, t.

Stream time is the latest time among the rows so far: a window is closed when stream time has reached its end plus the
grace. What comes for a closed window is reported as `late-record`; it still counts in windows that are open. Rows are
kept as long as an open window can hold them. Each result is folded anew from the window's rows, in the order of their
arrival: that is exact for every aggregate, also for those that cannot take back a row, and costs what the window
holds.

A tick sets stream time as a row of that time would. After the idle time-out it closes all windows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from headrace.plan.chain.contract import Batch, Context, Problem, Row
from headrace.plan.chain.fold import fold
from headrace.plan.chain.timeline import Timeline
from headrace.plan.chain.windows import Clock, grace_of, milliseconds

if TYPE_CHECKING:
    from headrace.plan.chain.aggregate import Grouped, Grouping

Kept = tuple[int, int, Row]
"""A row's time, its number in the group by arrival, and the values computed from it."""

_TIME, _NUMBER = itemgetter(0), itemgetter(1)


class SlidingAggregate:
    """Stores: `rows`, by group, how many came and those that are kept, by time; `ages`, when to look at a group."""

    def __init__(self, node: Any, grouping: Grouping, context: Context, old: bool) -> None:
        window = node.relation.window
        self.size = milliseconds(window.size)
        self.grace = grace_of(window)
        self.grouping = grouping
        self.fold = fold(node.calls, context, first=1, at=len(node.groups))
        # A row that an aggregate cannot take is reported when it comes, not in every window that holds it.
        self.again = fold(node.calls, replace(context, report=_ignore), first=1, at=len(node.groups))
        self.rows = context.store("rows")
        self.ages = Timeline(context.store("ages"), self.size + self.grace)
        self.clock = Clock(context, window.idle)
        self.old = old

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out: Batch = []
        now = self.clock.through(batch, self.grouping, lambda grouped, now: self._take(grouped, now, out))
        self._forget(now)
        return out

    def tick(self, now: int) -> Batch:
        self._forget(self.clock.ticked(now, lambda: self.clock.now + 1 + self.grace))
        return []

    def deadline(self) -> int | None:
        return None

    def _take(self, grouped: Grouped, now: int, out: Batch) -> None:
        event, values, group, slot = grouped
        time, open_from = event[0], now - self.grace
        if time < open_from:
            self.grouping.report("late-record", f"its own window had closed: the time was {now}", event)
        if time + self.size <= open_from:
            return
        count, kept = self.rows.get(slot) or (0, [])
        row = (time, count, values)
        others = list(kept)
        kept.insert(bisect_right(kept, time, key=_TIME), row)
        self.rows[slot] = (count + 1, kept)
        if not others:
            self.ages.add((time + self.size + self.grace, b"", slot))
        for end in self._ends(kept, max(time, open_from), time + self.size):
            before = self._result(others, end) if self.old else None
            out.append((end, (*group, (end - self.size + 1, end + 1)), self._result(others, end, row), before))

    def _ends(self, kept: list[Kept], first: int, until: int) -> list[int]:
        """The times of rows from the first up to, but without, the last."""
        places = bisect_left(kept, first, key=_TIME), bisect_left(kept, until, key=_TIME)
        return list(dict.fromkeys(map(_TIME, kept[slice(*places)])))

    def _result(self, kept: list[Kept], end: int, row: Kept | None = None) -> Row | None:
        """What the window that ends there comes to, with this row as its last; None if it was not there before."""
        first, last = bisect_right(kept, end - self.size, key=_TIME), bisect_right(kept, end, key=_TIME)
        held = sorted(kept[first:last], key=_NUMBER)
        if row is None and not (held and kept[last - 1][0] == end):
            return None
        entry = self.fold.blank()
        for _, number, values in held:
            self.again.add(entry, values, number)
        if row is not None:
            newest = self.fold if row[0] == end else self.again
            newest.add(entry, row[2], row[1])
        return self.fold.result(entry)

    def _forget(self, now: int) -> None:
        """Drop rows that no open window can hold. Groups are noted down with their first row: the rest again."""
        self.clock.advance(now)
        reach = self.size + self.grace
        for _, _, slot in self.ages.take(now):
            count, kept = self.rows.pop(slot)
            if still := kept[bisect_right(kept, now - reach, key=_TIME) :]:
                self.rows[slot] = (count, still)
                self.ages.add((still[0][0] + reach, b"", slot))


def _ignore(problem: Problem) -> None:
    del problem
