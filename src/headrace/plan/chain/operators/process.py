"""Runs a user-defined operator or an alert rule: keyed state and timers, by stream time.

Stream time is the latest time among the rows so far, or that of a tick. Before a row is processed, the timers that are
due by then fire, in order of their time and then of being set; a timer set for the past fires right after the row. Late
rows are passed to the operator, which can see that they are late.

An exception of an operator is reported as `operator-failed` with the row, which is dropped: state, timers and results
stay as before. A row without a key, or without a payload unless the operator takes deletions, is reported and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from headrace.plan.chain.aggregation.windows import StreamClock
from headrace.plan.chain.key_order import hashable, is_null
from headrace.plan.chain.step_builder import NEVER, step_of
from headrace.plan.chain.timeline import Entry, Timeline
from headrace.plan.nodes import Process
from headrace.plan.operators import OperatorResult
from headrace.plan.rewrite import relation_of
from headrace.plan.steps import Batch, Context, Event, Key, Problem, Step


@step_of(Process, old_from=NEVER)
def process(node: Process, context: Context, old: bool, inputs: Sequence[Step]) -> Step:
    del old, inputs
    return ProcessStep(node, context)


Place = tuple[int, bytes]
"""When a timer fires, and its number among all timers set."""


class ProcessStep:
    """Stores: `states`, by key; `armed`, by key and timer name, the timer's place and the place of its entry in `due`,
    the timers by time; `count`, the number of timers set so far, which orders them; `clock`.

    A timer that is postponed, as by every click of a visit, leaves its entry in `due` where it is; the entry moves when
    its old time comes. So `due` grows with the keys and not with the rows.
    """

    def __init__(self, node: Process, context: Context) -> None:
        self.where = f"operator {node.operator.name}"
        self.work = node.operator.work(relation_of(node.input))
        self.deletions = node.operator.deletions
        self.report = context.report
        self.states = context.store("states")
        self.armed = context.store("armed")
        self.due = Timeline(context.store("due"), 1000)
        self.count = context.store("count")
        self.clock = StreamClock(context)

    def process(self, port: int, batch: Batch) -> Batch:
        del port
        now = self.clock.now
        out: Batch = []
        for event in batch:
            now = max(now, event[0])
            out += self._fire(now)
            out += self._handle_row(event, now)
            out += self._fire(now)
        self.clock.advance(now)
        return out

    def tick(self, now: int) -> Batch:
        self.clock.advance(now)
        return list(self._fire(self.clock.now))

    def deadline(self) -> int | None:
        return self.due.first()

    def _handle_row(self, event: Event, now: int) -> Iterator[Event]:
        time, key, row = event
        if key is None or is_null(key) or (row is None and not self.deletions):
            code = "null-key" if is_null(key) else "null-value"
            self.report(Problem(code, "an operator needs a key and a value", self.where, time, key, row))
            return
        yield from self._apply(lambda state: self.work.event(state, now, time, key, row), time, key, row)

    def _fire(self, now: int) -> Iterator[Event]:
        """Fires due timers, one time at a time: a timer may set another that comes before the next."""
        while (at := self.due.first()) is not None and at <= now:
            due = [timer for entry in self.due.take(at) if (timer := self._due_timer(entry)) is not None]
            for number, key, name in sorted(due, key=itemgetter(0)):
                if self._disarmed(hashable(key), name, (at, number)):
                    yield from self._fire_timer(key, name, at)

    def _due_timer(self, entry: Entry) -> tuple[bytes, Key, str] | None:
        """Returns the timer of an entry if it is due; moves the entry of a postponed timer and ignores a cancelled
        one.
        """
        at, number, (key, name) = entry
        slot = hashable(key)
        armed = self.armed.get(slot, {})
        place, entry_place = armed.get(name, (None, None))
        if place is None or entry_place != (at, number):
            return None
        if place[0] == at:
            return place[1], key, name
        self.due.add((*place, (key, name)))
        self._store_timers(slot, {**armed, name: (place, place)})
        return None

    def _disarmed(self, slot: Any, name: str, place: Place) -> bool:
        """Removes a timer; False if another timer of the same time has cancelled it or set it again."""
        armed = self.armed.get(slot, {})
        if armed.get(name, (None,))[0] != place:
            return False
        self._store_timers(slot, {other: places for other, places in armed.items() if other != name})
        return True

    def _fire_timer(self, key: Key, name: str, at: int) -> Iterator[Event]:
        def call_timer(state: Any) -> OperatorResult:
            outcome = self.work.timer(state, at, key, name)
            if any(other is not None and other <= at for other in outcome.timers.values()):
                raise ValueError(f"a timer that fires at {at} must set the next timer to a later time")
            return outcome

        yield from self._apply(call_timer, at, key, None)

    def _apply(self, handle: Callable[[Any], OperatorResult], time: int, key: Key, row: Any) -> Iterator[Event]:
        slot = hashable(key)
        try:
            outcome = handle(self.states.get(slot))
        except Exception as error:
            reason = str(error) or type(error).__name__
            self.report(Problem("operator-failed", reason, self.where, time, key, row))
            return
        if outcome.state is not None:
            self.states[slot] = outcome.state
        elif slot in self.states:
            del self.states[slot]
        if outcome.timers:
            self._set(slot, key, outcome.timers)
        yield from ((time, key, output) for output in outcome.rows)

    def _set(self, slot: Any, key: Key, timers: dict[str, int | None]) -> None:
        armed = dict(self.armed.get(slot, {}))
        for name, at in timers.items():
            _, entry_place = armed.pop(name, (None, None))
            if at is None:
                continue
            self.count["next"] = number = self.count.get("next", 0) + 1
            place = (at, number.to_bytes(8))
            if entry_place is None or place < entry_place:
                self.due.add((*place, (key, name)))
                entry_place = place
            armed[name] = (place, entry_place)
        self._store_timers(slot, armed)

    def _store_timers(self, slot: Any, armed: dict[str, tuple[Place, Place]]) -> None:
        if armed:
            self.armed[slot] = armed
        elif slot in self.armed:
            del self.armed[slot]
