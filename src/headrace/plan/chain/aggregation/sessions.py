"""GROUP BY with session windows: a row within the gap of a group's session joins it; one between two merges them.

A session lasts from its first to its last row, both included. A session that grows becomes another window: the old one
is deleted first, at the time of its end, then the new one is emitted. Stream time is the latest time among the rows so
far; when it is later than a session's end plus gap and grace, the session is closed and accepts no rows. A row whose
session would be closed is reported as `late-record` and dropped.

If the window has an idle timeout, a tick that long after the latest row closes all sessions.

A tick sets stream time as a row of that time would. Only chains that end in `Final` request ticks.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from headrace.plan.chain.aggregation.windows import StreamClock, grace_of, milliseconds
from headrace.plan.chain.timeline import Timeline
from headrace.plan.codegen.fold import Entry, fold
from headrace.plan.steps import Batch, Context, Key, Row

if TYPE_CHECKING:
    from headrace.plan.chain.aggregation.aggregate import Grouped, Grouping

START, END = 0, 1


class SessionAggregate:
    """Aggregates sessions. Stores: `sessions`, by group, its row count and its open sessions by time (start, end,
    states); `closing`, when to check whether sessions of a group have closed.
    """

    def __init__(self, node: Any, grouping: Grouping, context: Context, old: bool) -> None:
        self.gap = milliseconds(node.relation.window.gap)
        self.lifetime = self.gap + grace_of(node.relation.window)
        self.grouping = grouping
        self.fold = fold(node.calls, context, first=2, at=len(node.groups))
        if self.fold.merge is None:
            raise ValueError("a session window requires aggregates that can be merged")
        self.merge = self.fold.merge
        self.sessions = context.store("sessions")
        self.closing = Timeline(context.store("closing"), self.lifetime)
        self.clock = StreamClock(context, node.relation.window.idle)
        self.old = old

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        out: Batch = []
        now = self.clock.through(batch, self.grouping, lambda grouped, now: self._take(grouped, now, out))
        self._close(now)
        return out

    def restart(self, key: Key) -> None:
        """Resets a session after its result was emitted (discarding results)."""
        number, sessions = self.sessions.get(self.grouping.slot(key[:-1])) or (0, [])
        for session in sessions:
            if (session[START], session[END]) == key[-1]:
                session[END + 1 :] = self.fold.blank()[END + 1 :]
                self.sessions[self.grouping.slot(key[:-1])] = (number, sessions)

    def tick(self, now: int) -> Batch:
        self._close(self.clock.ticked(now, self._all_closed))
        return []

    def _all_closed(self) -> int:
        ends = [s[END] for _, sessions in self.sessions.values() for s in sessions]
        return max(ends, default=-1) + self.lifetime + 1

    def deadline(self) -> int | None:
        return None

    def _take(self, grouped: Grouped, now: int, out: Batch) -> None:
        event, values, group, slot = grouped
        time, closed = event[0], now - self.lifetime
        number, sessions = self.sessions.get(slot) or (0, [])
        near = [s for s in sessions if closed <= s[END] and time - self.gap <= s[END] and s[START] <= time + self.gap]
        start, end = min([time, *(s[START] for s in near)]), max([time, *(s[END] for s in near)])
        if end < closed:
            self.grouping.report("late-record", f"its session had closed: the time was {now}", event)
            return
        before = self._replaced(near, group, (start, end) == (time, time), out)
        entry = self._merged(near)
        entry[START], entry[END] = start, end
        self.fold.add(entry, values, number)
        others = [s for s in sessions if not any(s is merged for merged in near)]
        self.sessions[slot] = (number + 1, sorted([*others, entry], key=itemgetter(START)))
        if not sessions:
            self.closing.add((end + self.lifetime + 1, b"", slot))
        out.append((end, (*group, (start, end)), self.fold.result(entry), before))

    def _replaced(self, near: list[Entry], group: Key, same: bool, out: Batch) -> Row | None:
        """Deletes the sessions that merge into a new one. If it is the same session, returns its old value instead."""
        results = [self.fold.result(session) if self.old else None for session in near]
        if same:
            return results[0] if results else None
        for session, result in zip(near, results, strict=True):
            out.append((session[END], (*group, (session[START], session[END])), None, result))
        return None

    def _merged(self, near: list[Entry]) -> Entry:
        entry = self.fold.blank()
        for session in near:
            self.merge(entry, session)
        return entry

    def _close(self, now: int) -> None:
        """Drops closed sessions. A group that still has open ones is scheduled again: they may have grown."""
        self.clock.advance(now)
        for _, _, slot in self.closing.take(now):
            number, sessions = self.sessions.pop(slot)
            if still := [s for s in sessions if s[END] >= now - self.lifetime]:
                self.sessions[slot] = (number, still)
                self.closing.add((still[0][END] + self.lifetime + 1, b"", slot))
