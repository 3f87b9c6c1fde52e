"""Stream-stream join as in Kafka Streams: pairs of equal key whose times are close, each emitted once.

Every row is stored for `before + after + grace` of its own side's time, then dropped; a row that is already older than
that on arrival is late: it is reported, and no later row is joined with it. An unmatched row is emitted if its side is
outer: at once without `grace` (and its pairs too when they arrive), else when no match can arrive any more, which is
when the time of both sides has passed the end of its window and the grace. Expired unmatched rows are emitted before
the pairs of the row that advanced the time. A tick advances time as a row would.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from operator import itemgetter
from typing import Any

from headrace.clock import millis
from headrace.plan.chain.key_order import Order, hashable, is_null, order_of
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.chain.timeline import Timeline
from headrace.plan.nodes import JoinKind, StreamJoin
from headrace.plan.steps import Batch, Context, Event, Key, Problem, Row, Step, Store

DAY = 86_400_000
OUTER_SIDES = {
    JoinKind.INNER: (False, False),
    JoinKind.LEFT: (True, False),
    JoinKind.RIGHT: (False, True),
    JoinKind.FULL: (True, True),
}
"""Whether unmatched rows of the left side, of the right side are emitted."""

_PAGES = 16
_NOW = "now"
_STORE_ORDER = itemgetter(0, 1, 2)


def join_reach(node: StreamJoin) -> tuple[int, int, int]:
    """Returns how far apart rows may be, and the grace, in ms."""
    before, after = millis(node.before), millis(node.after)
    # Without a grace Kafka Streams retains rows for a day, or for the window if that is longer.
    grace = max(DAY - 2 * before, 0) if node.grace is None else millis(node.grace)
    return before, after, grace


class JoinBuffer:
    """The rows of one side that can still be joined: per key their sorted times, and the rows in the same order."""

    def __init__(self, context: Context, side: str, retention: int) -> None:
        self._rows = context.store(f"{side}-rows")
        self._clock = context.store(f"{side}-clock")
        self._ages = Timeline(context.store(f"{side}-ages"), retention // _PAGES)
        self._retention = retention

    def put(self, key: Hashable, time: int, row: Row) -> bool:
        """Stores a row; returns False if it is too old."""
        if time <= self.advance(time) - self._retention:
            return False
        times, rows = self._rows.get(key) or ([], [])
        at = bisect_right(times, time)
        times.insert(at, time)
        rows.insert(at, row)
        self._rows[key] = (times, rows)
        self._ages.add((time, b"", key))
        return True

    def between(self, key: Hashable, first: int, last: int) -> list[tuple[int, Row]]:
        """Returns the rows of a key from one time to another, both included; rows of the same time in order of
        arrival.
        """
        times, rows = self._rows.get(key) or ((), ())
        start, end = bisect_left(times, first), bisect_right(times, last)
        return list(zip(times[start:end], rows[start:end], strict=True))

    def advance(self, time: int) -> int:
        """Drops rows that are too old at that time; returns the time this side has reached."""
        now = self._clock.get(_NOW)
        if now is not None and time <= now:
            return now
        self._clock[_NOW] = time
        for _, _, key in self._ages.take(time - self._retention):
            self._forget(key, time - self._retention)
        return time

    def _forget(self, key: Hashable, until: int) -> None:
        if (stored := self._rows.get(key)) is None:
            return
        times, rows = stored
        cut = bisect_right(times, until)
        if cut == len(times):
            del self._rows[key]
        else:
            self._rows[key] = (times[cut:], rows[cut:])


class UnmatchedRows:
    """The unmatched rows of one side until their window closes: `reach` after their time."""

    def __init__(self, context: Context, side: str, reach: int, order: Order) -> None:
        self._rows = context.store(f"{side}-waiting")
        self._closing = Timeline(context.store(f"{side}-closing"), reach // _PAGES)
        self._reach = reach
        self._order = order

    def put(self, slot: Hashable, time: int, key: Key, row: Row) -> None:
        if (rows := self._rows.get((slot, time))) is None:
            rows = []
            self._closing.add((time, self._order(key), key))
        rows.append(row)
        self._rows[(slot, time)] = rows

    def remove(self, slot: Hashable, time: int) -> None:
        self._rows.pop((slot, time), None)

    def closed(self, now: int) -> list[tuple[int, bytes, Key, list[Row]]]:
        """Removes and returns the rows whose window has closed, by time, then key."""
        over = self._closing.take(now - self._reach - 1)
        return [
            (time, order, key, rows)
            for time, order, key in over
            if (rows := self._rows.pop((hashable(key), time), None)) is not None
        ]

    def deadline(self) -> int | None:
        first = self._closing.first()
        return None if first is None else first + self._reach + 1


class StreamJoinStep:
    """Joins two streams; port 0 is left, port 1 right."""

    def __init__(self, node: Any, context: Context) -> None:
        before, after, grace = join_reach(node)
        order = order_of(node.left)
        self._report = context.report
        self._clock: Store = context.store("clock")
        self._outer = OUTER_SIDES[node.kind]
        self._eager = node.grace is None
        self._reach = ((before, after), (after, before))
        self._rows = tuple(JoinBuffer(context, side, before + after + grace) for side in ("left", "right"))
        self._waiting = (
            UnmatchedRows(context, "left", after + grace, order),
            UnmatchedRows(context, "right", before + grace, order),
        )
        self._alone = ((None,) * len(node.right.relation.value), (None,) * len(node.left.relation.value))

    def process(self, port: int, batch: Batch) -> Batch:
        out: list[Event] = []
        for time, key, row in batch:
            now = self._advance(time)
            if row is None or is_null(key):
                self._keyless(port, time, key, row, out)
                continue
            slot = hashable(key)
            if not self._rows[port].put(slot, time, row):
                self._drop("late-record", "older than the join window and its grace", time, key, row)
            if time == now:
                self._close(now, out)
            self._pair(port, time, key, slot, row, now, out)
        return out

    def tick(self, now: int) -> Batch:
        """Advances time without rows, for both sides; otherwise each side follows its own rows.

        Before the first row there is no time to advance, and a tick that is not ahead changes nothing: a query that
        resumes is sent one, to learn its deadline.
        """
        out: list[Event] = []
        stream_time = self._clock.get(_NOW)
        if stream_time is not None and now > stream_time:
            for side in self._rows:
                side.advance(self._advance(now))
            self._close(now, out)
        return out

    def deadline(self) -> int | None:
        """Returns when the next unmatched row is emitted if nothing arrives."""
        return min((d for side in self._waiting if (d := side.deadline()) is not None), default=None)

    def _advance(self, time: int) -> int:
        """Returns the time that both sides have reached."""
        now = self._clock.get(_NOW)
        if now is None or time > now:
            self._clock[_NOW] = now = time
        return now

    def _pair(self, port: int, time: int, key: Key, slot: Hashable, row: Row, now: int, out: list[Event]) -> None:
        back, ahead = self._reach[port]
        partners = self._rows[1 - port].between(slot, time - back, time + ahead)
        for other, partner in partners:
            self._waiting[1 - port].remove(slot, other)
            out.append((max(time, other), key, row + partner if port == 0 else partner + row))
        if partners or not self._outer[port]:
            return
        if self._eager or time + ahead < now:
            out.append((time, key, self._padded(port, row)))
        else:
            self._waiting[port].put(slot, time, key, row)

    def _close(self, now: int, out: list[Event]) -> None:
        """Emits expired unmatched rows by time, then right before left, then key: the order of Kafka Streams."""
        if self._eager or not any(self._outer):
            return
        over = [
            (t, 1 - port, order, key, rows)
            for port in (0, 1)
            for t, order, key, rows in self._waiting[port].closed(now)
        ]
        for time, right, _, key, rows in sorted(over, key=_STORE_ORDER):
            out.extend((time, key, self._padded(1 - right, row)) for row in rows)

    def _padded(self, port: int, row: Row) -> Row:
        return row + self._alone[0] if port == 0 else self._alone[1] + row

    def _keyless(self, port: int, time: int, key: Key | None, row: Row | None, out: list[Event]) -> None:
        """Handles a row without a key or value: a null key matches nothing, so an outer join emits it at once; without
        a value there is nothing to join.
        """
        if row is not None and self._outer[port]:
            out.append((time, key, self._padded(port, row)))
        else:
            self._drop("null-value" if row is None else "null-key", "a join needs a key and a value", time, key, row)

    def _drop(self, code: str, reason: str, time: int, key: Key | None, row: Row | None) -> None:
        self._report(Problem(code, reason, "stream-stream join", time, key, row))


@step_of(StreamJoin, old_from=NEVER)
def stream_join(node: StreamJoin, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del old, inputs
    return StreamJoinStep(node, context)
