"""GROUP BY with tumbling and hopping windows: a table with a row per group and window.

A window holds the times from its start up to, but without, its end; starts are multiples of the advance since 1970. A
row counts in every window that holds its time, the earliest first. Stream time is the latest time among the rows so
far: a window is closed when stream time has reached its end plus the grace. What comes for a closed window is reported
as `late-record` and left out.

A tick sets stream time as a row of that time would. Only chains that end in `Final` ask for ticks.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.plan.chain.closing import Closing, Place
from headrace.plan.chain.contract import Batch, Context
from headrace.plan.chain.fold import fold
from headrace.plan.nodes import Window

if TYPE_CHECKING:
    from headrace.plan.chain.aggregate import Grouping

DAY = timedelta(days=1)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(span: timedelta | None) -> int:
    return 0 if span is None else span // _MILLISECOND


def grace_of(window: Window) -> int:
    """In ms. Where none is given, a row may be a day late, counted from the window's start: so it is in ksqlDB."""
    if window.grace is not None:
        return milliseconds(window.grace)
    return max(milliseconds(DAY) - milliseconds(window.size or window.gap), 0)


class Clock:
    """Stream time: the latest time that was seen. Store `clock`."""

    def __init__(self, context: Context) -> None:
        self._store = context.store("clock")

    @property
    def now(self) -> int:
        return self._store.get("now", -1)

    def advance(self, time: int) -> None:
        if time > self.now:
            self._store["now"] = time


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
        self.clock = Clock(context)
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
        self._close(now)
        return out

    def tick(self, now: int) -> Batch:
        self._close(now)
        return []

    def deadline(self) -> int | None:
        return None

    def _first_open(self, event: Any, start: int, now: int) -> int:
        """The first of the row's windows that is still open; those before it are reported."""
        closed = 0
        while start <= event[0] and start + self.size <= now - self.grace:
            start, closed = start + self.advance, closed + 1
        reason = f"{closed} of its windows had closed: the time was {now}, the grace is {self.grace} ms"
        self.grouping.report("late-record", reason, event)
        return start

    def _close(self, now: int) -> None:
        self.clock.advance(now)
        for place in self.closing.take(now - self.size - self.grace):
            del self.windows[place]
