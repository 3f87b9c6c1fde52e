"""GROUP BY with sliding windows: every row ends a window that reaches back by the size.

The window of a row at time t contains the group's rows of (t - size, t]; as bounds that is [t - size + 1, t + 1). Rows
of the same time share one. A row out of order ends its own window and also counts in those of the later rows less than
the size away, which are emitted again, earliest first. A result's time is that of the window's last row, t.

Stream time is the latest time among the rows so far: a window is closed when stream time has reached its end plus the
grace. A row for a closed window is reported as `late-record`; it still counts in windows that are open. Rows are stored
as long as an open window can contain them. Each result is folded again from the window's rows, in order of arrival:
that is exact for every aggregate, also for those without `undo`, and costs time in proportion to the window's rows.

A tick sets stream time as a row of that time would. After the idle timeout it closes all windows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from headrace.plan.chain.aggregation.windows import StreamClock, grace_of, milliseconds
from headrace.plan.chain.timeline import Timeline
from headrace.plan.codegen.fold import fold
from headrace.plan.steps import Batch, Context, Problem, Row

if TYPE_CHECKING:
    from headrace.plan.chain.aggregation.aggregate import Grouped, Grouping

StoredRow = tuple[int, int, Row]
"""A row's time, its number in the group by arrival, and the values computed from it."""

_TIME, _NUMBER = itemgetter(0), itemgetter(1)


class SlidingAggregate:
    """Stores: `rows`, by group, the row count and the stored rows by time; `ages`, when to check a group."""

    def __init__(self, node: Any, grouping: Grouping, context: Context, old: bool) -> None:
        window = node.relation.window
        self.size = milliseconds(window.size)
        self.grace = grace_of(window)
        self.grouping = grouping
        self.fold = fold(node.calls, context, first=1, at=len(node.groups))
        # A row that an aggregate rejects is reported when it arrives, not in every window that contains it.
        self.silent_fold = fold(node.calls, replace(context, report=_ignore), first=1, at=len(node.groups))
        self.rows = context.store("rows")
        self.ages = Timeline(context.store("ages"), self.size + self.grace)
        self.clock = StreamClock(context, window.idle)
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
        count, stored = self.rows.get(slot) or (0, [])
        row = (time, count, values)
        others = list(stored)
        stored.insert(bisect_right(stored, time, key=_TIME), row)
        self.rows[slot] = (count + 1, stored)
        if not others:
            self.ages.add((time + self.size + self.grace, b"", slot))
        for end in self._ends(stored, max(time, open_from), time + self.size):
            before = self._result(others, end) if self.old else None
            out.append((end, (*group, (end - self.size + 1, end + 1)), self._result(others, end, row), before))

    def _ends(self, stored: list[StoredRow], first: int, until: int) -> list[int]:
        """Returns the times of the rows from `first` to `until`, which is excluded."""
        places = bisect_left(stored, first, key=_TIME), bisect_left(stored, until, key=_TIME)
        return list(dict.fromkeys(map(_TIME, stored[slice(*places)])))

    def _result(self, stored: list[StoredRow], end: int, row: StoredRow | None = None) -> Row | None:
        """Returns the result of the window that ends at `end`, `row` being its last; None if it did not exist."""
        first, last = bisect_right(stored, end - self.size, key=_TIME), bisect_right(stored, end, key=_TIME)
        in_window = sorted(stored[first:last], key=_NUMBER)
        if row is None and not (in_window and stored[last - 1][0] == end):
            return None
        entry = self.fold.blank()
        for _, number, values in in_window:
            self.silent_fold.add(entry, values, number)
        if row is not None:
            newest = self.fold if row[0] == end else self.silent_fold
            newest.add(entry, row[2], row[1])
        return self.fold.result(entry)

    def _forget(self, now: int) -> None:
        """Drops rows that no open window can contain. A group with rows left is scheduled again."""
        self.clock.advance(now)
        reach = self.size + self.grace
        for _, _, slot in self.ages.take(now):
            count, stored = self.rows.pop(slot)
            if remaining := stored[bisect_right(stored, now - reach, key=_TIME) :]:
                self.rows[slot] = (count, remaining)
                self.ages.add((remaining[0][0] + reach, b"", slot))


def _ignore(problem: Problem) -> None:
    del problem
