"""GROUP BY with tumbling and hopping windows: a table with one row per group and window.

A window contains the times from its start up to its end, which is excluded; starts are multiples of the advance since
1970. A row counts in every window that contains its time, earliest first. Stream time is the latest time among the rows
so far: a window is closed when stream time has reached its end plus the grace. A row for a closed window is reported as
`late-record` and dropped. If the advance is longer than the size, a row between two windows counts in none: sampling
asks for that, so it is not reported, but it advances stream time.

If the window has an idle timeout, a tick that long after the latest row closes all open windows, as a row that late
would; later windows stay open.

A tick sets stream time as a row of that time would. Only chains that end in `Final` request ticks.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.clock import millis
from headrace.plan.chain.aggregation.open_windows import OpenWindows, Place
from headrace.plan.codegen.fold import fold
from headrace.plan.relations import Window, WindowKind
from headrace.plan.steps import Batch, Context, Key

if TYPE_CHECKING:
    from headrace.plan.chain.aggregation.aggregate import Grouped, Grouping

DAY = timedelta(days=1)


def milliseconds(span: timedelta | None) -> int:
    return 0 if span is None else millis(span)


def grace_of(window: Window) -> int:
    """Returns the grace in ms. By default, as in ksqlDB, a row may be a day late, from the window's start."""
    if window.grace is not None:
        return milliseconds(window.grace)
    return max(milliseconds(DAY) - milliseconds(window.size or window.gap), 0)


def closing_delay(window: Window) -> int:
    """Returns how many ms after its end a window is complete if nothing is late. A session's end is its last row."""
    return milliseconds(window.gap) + 1 if window.kind is WindowKind.SESSION else 0


class StreamClock:
    """Stream time: the latest time seen. Store `clock`."""

    def __init__(self, context: Context, idle: timedelta | None = None) -> None:
        self._store = context.store("clock")
        self._idle = None if idle is None else milliseconds(idle)

    @property
    def now(self) -> int:
        return self._store.get("now", -1)

    def advance(self, time: int) -> None:
        if time > self.now:
            self._store["now"] = time

    def note(self, batch: Batch) -> None:
        """Records the arrival of rows: the idle timeout starts at the latest of them."""
        if self._idle is not None and batch:
            self._store["row"] = max(self._store.get("row", -1), *(entry[0] for entry in batch))

    def through(self, batch: Batch, grouping: Grouping, take: Callable[[Grouped, int], None]) -> int:
        """Calls `take` for every row with its stream time; returns the final time, which is not stored yet."""
        now = self.now
        for grouped in grouping.rows(batch):
            now = max(now, grouped[0][0])
            take(grouped, now)
        self.note(batch)
        return now

    def idle_at(self) -> int | None:
        """Returns when the idle timeout expires."""
        row = self._store.get("row")
        return None if row is None or self._idle is None else row + self._idle

    def ticked(self, now: int, all_closed: Callable[[], int]) -> int:
        """Returns the time after a tick; once idle, at least the time at which all open windows are closed."""
        idle_at = self.idle_at()
        return now if idle_at is None or now < idle_at else max(now, all_closed())


class WindowAggregate:
    """Stores: `windows`, by group and start, the result's time and the states; `closing`, the open windows."""

    def __init__(self, node: Any, grouping: Grouping, context: Context, old: bool) -> None:
        window: Window = node.relation.window
        self.size = milliseconds(window.size)
        self.advance = milliseconds(window.advance) or self.size
        self.grace = grace_of(window)
        self.grouping = grouping
        self.fold = fold(node.calls, context, first=1, at=len(node.groups))
        self.windows = context.store("windows")
        self.closing = OpenWindows(context.store("closing"))
        self.clock = StreamClock(context, window.idle)
        self.old = old

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        windows, blank, add, result = self.windows, self.fold.blank, self.fold.add, self.fold.result
        size, advance, grace = self.size, self.advance, self.grace
        now = self.clock.now
        opened: list[Place] = []
        out: Batch = []
        for event, values, group, slot in self.grouping.rows(batch):
            time = event[0]
            if time > now:
                now = time
            start = max(time - size + advance, 0) // advance * advance
            if start + size <= now - grace:
                start = self._first_open(event, start, now)
            while start <= time:
                place = (slot, start)
                entry = windows.get(place)
                before = None
                if entry is None:
                    entry = blank()
                    entry[0] = time
                    opened.append(place)
                else:
                    if self.old:
                        before = result(entry)
                    if time > entry[0]:
                        entry[0] = time
                add(entry, values, 0)
                windows[place] = entry
                out.append((entry[0], (*group, (start, start + size)), result(entry), before))
                start += advance
        self.closing.note(opened)
        self.clock.note(batch)
        self._close(now)
        return out

    def restart(self, key: Key) -> None:
        """Resets a window after its result was emitted (discarding results)."""
        place = (self.grouping.slot(key[:-1]), key[-1][0])
        if (entry := self.windows.get(place)) is not None:
            self.windows[place] = [entry[0], *self.fold.blank()[1:]]

    def tick(self, now: int) -> Batch:
        self._close(self.clock.ticked(now, lambda: self.closing.last() + self.size + self.grace))
        return []

    def deadline(self) -> int | None:
        return None

    def _first_open(self, event: Any, start: int, now: int) -> int:
        """Returns the start of the first of the row's windows that is still open; reports the earlier ones."""
        closed = 0
        while start <= event[0] and start + self.size <= now - self.grace:
            start, closed = start + self.advance, closed + 1
        if not closed:
            return start  # the row belongs to no window
        reason = f"{closed} of its windows had closed: the time was {now}, the grace is {self.grace} ms"
        self.grouping.report("late-record", reason, event)
        return start

    def _close(self, now: int) -> None:
        self.clock.advance(now)
        for place in self.closing.take(now - self.size - self.grace):
            del self.windows[place]
