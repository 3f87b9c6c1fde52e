"""GROUP BY with tumbling and hopping windows: a table with a row per group and window.

A window holds the times from its start up to, but without, its end; starts are multiples of the advance since 1970. A
row counts in every window that holds its time, the earliest first. Stream time is the latest time among the rows so
far: a window is closed when stream time has reached its end plus the grace. What comes for a closed window is reported
as `late-record` and left out. If the advance is longer than the size, a row between two windows counts in none: that
is what sampling asks for, so it is not reported, but its time counts.

If the window has an idle time-out, a tick that comes that long after the latest row closes all windows that are open,
as a row that late would; those after them stay open.

A tick sets stream time as a row of that time would. Only chains that end in `Final` ask for ticks.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.clock import millis
from headrace.plan.chain.closing import Closing, Place
from headrace.plan.chain.contract import Batch, Context, Key
from headrace.plan.chain.fold import fold
from headrace.plan.nodes import Window, WindowKind

if TYPE_CHECKING:
    from headrace.plan.chain.aggregate import Grouped, Grouping

DAY = timedelta(days=1)


def milliseconds(span: timedelta | None) -> int:
    return 0 if span is None else millis(span)


def grace_of(window: Window) -> int:
    """In ms. Where none is given, a row may be a day late, counted from the window's start: so it is in ksqlDB."""
    if window.grace is not None:
        return milliseconds(window.grace)
    return max(milliseconds(DAY) - milliseconds(window.size or window.gap), 0)


def closing_delay(window: Window) -> int:
    """How long after its end a window is complete, if nothing is late, in ms. A session's end is its last row."""
    return milliseconds(window.gap) + 1 if window.kind is WindowKind.SESSION else 0


class Clock:
    """Stream time: the latest time that was seen. Store `clock`."""

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
        """Rows that came: an idle time-out begins with the latest of them."""
        if self._idle is not None and batch:
            self._store["row"] = max(self._store.get("row", -1), *(entry[0] for entry in batch))

    def through(self, batch: Batch, grouping: Grouping, take: Callable[[Grouped, int], None]) -> int:
        """Let every row be taken at the stream time it brings; gives the time at the end, which is not kept yet."""
        now = self.now
        for grouped in grouping.rows(batch):
            now = max(now, grouped[0][0])
            take(grouped, now)
        self.note(batch)
        return now

    def idle_at(self) -> int | None:
        """When the input will have been idle for too long."""
        row = self._store.get("row")
        return None if row is None or self._idle is None else row + self._idle

    def ticked(self, now: int, all_closed: Callable[[], int]) -> int:
        """The time that a tick brings: once idle, it is at least that at which all open windows are closed."""
        idle_at = self.idle_at()
        return now if idle_at is None or now < idle_at else max(now, all_closed())


class WindowAggregate:
    """Stores: `windows`, by group and start, the result's time and the states; `closing`, which are open."""

    def __init__(self, node: Any, grouping: Grouping, context: Context, old: bool) -> None:
        window: Window = node.relation.window
        self.size = milliseconds(window.size)
        self.advance = milliseconds(window.advance) or self.size
        self.grace = grace_of(window)
        self.grouping = grouping
        self.fold = fold(node.calls, context, first=1, at=len(node.groups))
        self.windows = context.store("windows")
        self.closing = Closing(context.store("closing"))
        self.clock = Clock(context, window.idle)
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
        """Begin a window anew: what it held so far has been given out."""
        place = (self.grouping.slot(key[:-1]), key[-1][0])
        if (entry := self.windows.get(place)) is not None:
            self.windows[place] = [entry[0], *self.fold.blank()[1:]]

    def tick(self, now: int) -> Batch:
        self._close(self.clock.ticked(now, lambda: self.closing.last() + self.size + self.grace))
        return []

    def deadline(self) -> int | None:
        return None

    def _first_open(self, event: Any, start: int, now: int) -> int:
        """The first of the row's windows that is still open; those before it are reported."""
        closed = 0
        while start <= event[0] and start + self.size <= now - self.grace:
            start, closed = start + self.advance, closed + 1
        if not closed:
            return start  # it belongs to no window
        reason = f"{closed} of its windows had closed: the time was {now}, the grace is {self.grace} ms"
        self.grouping.report("late-record", reason, event)
        return start

    def _close(self, now: int) -> None:
        self.clock.advance(now)
        for place in self.closing.take(now - self.size - self.grace):
            del self.windows[place]
