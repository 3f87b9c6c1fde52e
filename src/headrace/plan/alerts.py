"""Alerts: when a rule raises one for a key and clears it again, and the notices it gives out.

A rule looks at rows of three columns, which a Select below it computes: whether the condition holds, the value that is
watched, and the message. It is an operator with state and timers by key as others are, so what it says is the same
in the chain and in Spark, and the same again after a crash.

    Condition   the row says itself whether it holds
    Change      the value has changed by so much against one of the values within a time before
    Deviation   the value is far from those of the same hour on days before
    Absence     no row has come for a while

An alert is *raised* for a key when the test holds, for as long as the rule asks, and *cleared* when it no longer does.
Between the two nothing is said. With `each` every row for which it holds is an event by itself, and nothing is cleared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from math import isfinite
from operator import ge, gt, le, lt
from statistics import median
from typing import Any, NamedTuple

from headrace.clock import millis
from headrace.plan import types as t
from headrace.plan.catalog import SourceInfo
from headrace.plan.expressions import Compare
from headrace.plan.nodes import Format, Kind, Relation
from headrace.plan.operators import OperatorKind, Outcome
from headrace.schema import Field
from headrace.settings import duration_text

RAISED, CLEARED, EVENT = "raised", "cleared", "event"
SEVERITIES = ("info", "warning", "critical")
LEAST_DAYS = 5
"""With fewer days before it, a deviation says nothing."""

WATCHED = (Field("$holds", t.BOOLEAN), Field("$value", t.DOUBLE), Field("$message", t.STRING))
"""What a rule looks at; columns behind them may be those of the key."""
SAID = (
    Field("ID", t.STRING),
    Field("TARGET", t.STRING),
    Field("STATE", t.STRING),
    Field("MESSAGE", t.STRING),
    Field("VALUE", t.DOUBLE),
    Field("SINCE", t.BIGINT),
)
"""What it gives out: TARGET is the key as text, SINCE when the test began to hold."""
TOPIC = "__alerts"
NOTICES = SourceInfo(
    "ALERTS",
    TOPIC,
    Relation(
        Kind.STREAM,
        (Field("TARGET", t.STRING),),
        (
            Field("ID", t.STRING),
            Field("ALERT", t.STRING),
            Field("QUERY", t.STRING),
            Field("STATE", t.STRING),
            Field("SEVERITY", t.STRING),
            Field("MESSAGE", t.STRING),
            Field("VALUE", t.DOUBLE),
            Field("SINCE", t.BIGINT),
            Field("AT", t.BIGINT),
            Field("NOTIFY", t.array(t.STRING)),
        ),
    ),
    Format("KAFKA"),
    Format("JSON"),
)
"""The notices of all alerts: one topic, read and written as this stream."""

# -- rules ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    def __str__(self) -> str:
        return "it holds"


@dataclass(frozen=True)
class Change:
    """The value less another that is at most `within` older, in `percent` of that one or as it is, compared to `by`."""

    op: Compare
    by: float
    percent: bool
    within: timedelta

    def __str__(self) -> str:
        unit = "%" if self.percent else ""
        return f"the change within {duration_text(self.within)} is {self.op} {self.by:g}{unit}"


@dataclass(frozen=True)
class Deviation:
    """Further than `by` deviations from the median of the same hour on the days of `over`."""

    by: float
    over: timedelta

    def __str__(self) -> str:
        return f"it deviates by {self.by:g} from the same hour of {self.over.days} days"


@dataclass(frozen=True)
class Absence:
    def __str__(self) -> str:
        return "no row comes"


Test = Condition | Change | Deviation | Absence


@dataclass(frozen=True)
class Rule:
    test: Test
    lasting: timedelta = timedelta(0)
    each: bool = False

    def __str__(self) -> str:
        if self.each:
            return f"raised whenever {self.test}"
        return f"raised when {self.test}" + (f" for {duration_text(self.lasting)}" if self.lasting else "")


@dataclass(frozen=True)
class Alert:
    """What a statement made, beside the query that runs it. `notify` are the notifiers that its notices go to."""

    name: str
    source: str
    rule: Rule
    severity: str
    notify: tuple[str, ...] = ()


def watching(alert: Alert, query: str, nulls: Nulls) -> OperatorKind:
    """The operator of an alert's query; `nulls` says what a row without a payload is."""
    work = partial(Watching, alert, query, nulls)
    return OperatorKind(f"alert {alert.name}", str(alert.rule), SAID, work, deletions=True)


# -- tests: what they remember of a key, and whether they hold ------------------------------------------------------

_DAY, _HOUR = millis(timedelta(days=1)), millis(timedelta(hours=1))
_PARTS = 60  # of the time that a change looks back: of each the lowest and the highest value are remembered
_OPS: Mapping[Compare, Callable[[float, float], bool]] = {
    Compare.LESS: lt,
    Compare.LESS_OR_EQUAL: le,
    Compare.GREATER: gt,
    Compare.GREATER_OR_EQUAL: ge,
}
_AS_NORMAL = 1.4826  # a normal distribution's deviation in terms of the median of absolute deviations
_LEAST_SPREAD = 0.01  # of the median: values that were always equal may still differ a little


def changed(test: Change, memory: Any, time: int, value: float) -> tuple[bool, Any]:
    """`memory` maps a part of the time to the lowest and highest value in it."""
    length = _part(test)
    part, first = time // length, (time - millis(test.within)) // length
    kept = {at: bounds for at, bounds in (memory or {}).items() if at >= first}
    holds = any(_is_change(test, value, other) for at in kept if at <= part for other in kept[at])
    low, high = kept.get(part, (value, value))
    return holds, {**kept, part: (min(low, value), max(high, value))}


def _part(test: Change) -> int:
    return max(millis(test.within) // _PARTS, 1)


def _is_change(test: Change, value: float, before: float) -> bool:
    if not test.percent:
        return _OPS[test.op](value - before, test.by)
    return before != 0 and _OPS[test.op](100 * (value - before) / abs(before), test.by)


def deviated(test: Deviation, memory: Any, time: int, value: float) -> tuple[bool, Any]:
    """`memory` maps an hour since 1970 to the sum of its values and how many they were."""
    hour = time // _HOUR
    kept = {at: sums for at, sums in (memory or {}).items() if at >= hour - test.over.days * 24}
    past = [total / count for at, (total, count) in kept.items() if at < hour and (hour - at) % 24 == 0]
    total, count = kept.get(hour, (0.0, 0))
    return _is_far(test, value, past), {**kept, hour: (total + value, count + 1)}


def _is_far(test: Deviation, value: float, past: list[float]) -> bool:
    if len(past) < LEAST_DAYS:
        return False
    middle = median(past)
    spread = _AS_NORMAL * median(abs(one - middle) for one in past)
    return abs(value - middle) > test.by * max(spread, _LEAST_SPREAD * abs(middle))


# -- at work --------------------------------------------------------------------------------------------------------

_FORGET = "forget"
"""The timer that ends what is remembered of a key; that of FOR and of an absence has no name."""


class Nulls(StrEnum):
    """What a row without a payload is: the key's row is gone, a row came that says nothing, or no row at all."""

    GONE = "gone"
    CAME = "came"
    NONE = "none"


class State(NamedTuple):
    """Of one key. `since` is when the test began to hold; `value` and `message` are those of the row that says so."""

    notices: int = 0
    """Since it was born."""
    since: int | None = None
    raised: bool = False
    value: float | None = None
    message: str | None = None
    memory: Any = None
    born: int | None = None
    """Stream time when something was first to be said of the key, or was again after it had been forgotten."""

    @property
    def kept(self) -> tuple[Any, ...] | None:
        """As it is stored; a key of which nothing was said and nothing is remembered is none."""
        return None if self._replace(born=None) == State() else tuple(self)

    @property
    def is_at_rest(self) -> bool:
        return self.since is None and not self.raised


class Watching:
    """A rule at work.

    An id is made of the key, when its state was born, and how many notices there were since. A state that has said
    something ends only when stream time has gone on from its birth, so no other is born at the same time.
    """

    def __init__(self, alert: Alert, query: str, nulls: Nulls, input: Relation) -> None:
        del input  # it is `WATCHED`, under the key that the alert is by
        self._alert = alert
        self._query = query
        self._nulls = nulls
        self._lasting = millis(alert.rule.lasting)
        self._is_absence = isinstance(alert.rule.test, Absence)

    def event(self, state: Any, now: int, time: int, key: tuple[Any, ...], row: tuple[Any, ...] | None) -> Outcome:
        before = State(*(state or ()))
        if row is None:
            return self._null(before, now, time, key)
        holds, value, message = row[: len(WATCHED)]
        if self._is_absence:
            return self._come(before, now, time, key, value, message)
        test = self._alert.rule.test
        if isinstance(test, Change | Deviation):
            return self._compared(test, before, now, time, key, value, message)
        if not holds:
            return self._not_holding(before, now, key, value)
        return self._holding(before, now, time, key, value, message)

    def _null(self, before: State, now: int, time: int, key: Any) -> Outcome:
        if self._nulls is Nulls.GONE:
            return self._not_holding(before, now, key, None)
        if self._nulls is Nulls.CAME and self._is_absence:
            return self._come(before, now, time, key, None, before.message)
        return Outcome(before.kept)

    def _compared(
        self, test: Change | Deviation, before: State, now: int, time: int, key: Any, value: Any, message: str | None
    ) -> Outcome:
        """With what is remembered. A number that is none would spoil that."""
        if value is None or not isfinite(value):
            return Outcome(before.kept)
        look = partial(changed, test) if isinstance(test, Change) else partial(deviated, test)
        holds, memory = look(before.memory, time, value)
        is_later = not before.memory or max(memory) > max(before.memory)
        before = before._replace(memory=memory)
        if holds:
            outcome = self._holding(before, now, time, key, value, message)
        else:
            outcome = self._not_holding(before, now, key, value)
        if is_later:
            outcome.timers[_FORGET] = max(_forgotten_at(test, max(memory)), now + _HOUR)
        return outcome

    def _holding(
        self, before: State, now: int, time: int, key: Any, value: float | None, message: str | None
    ) -> Outcome:
        born = before._replace(born=now if before.born is None else before.born)
        if self._alert.rule.each:
            return self._rested(self._said(born, EVENT, key, time, value, message), now)
        if before.raised or before.since is not None:
            return Outcome(before.kept)
        since = born._replace(since=time, value=value, message=message)
        if not self._lasting:
            return self._raised(since, key)
        return Outcome(since.kept, timers={"": time + self._lasting})

    def _not_holding(self, before: State, now: int, key: Any, value: float | None) -> Outcome:
        after = before._replace(since=None, raised=False, value=None, message=None)
        if before.is_at_rest:
            return Outcome(after.kept)
        if not before.raised or before.since is None:
            return self._rested(Outcome(after.kept, timers={"": None}), now)
        return self._rested(self._said(after, CLEARED, key, before.since, value, before.message), now)

    def _rested(self, outcome: Outcome, now: int) -> Outcome:
        """A key of which nothing is to be said is forgotten, at once if it may be."""
        state = State(*(outcome.state or ()))
        if state.memory is not None or outcome.state is None:  # what is remembered has its time
            return outcome
        if not state.notices or (state.born is not None and state.born < now):
            return Outcome(None, outcome.rows, outcome.timers)
        return Outcome(outcome.state, outcome.rows, {**outcome.timers, _FORGET: now + _HOUR})

    def _come(self, before: State, now: int, time: int, key: Any, value: float | None, message: str | None) -> Outcome:
        """The next absence begins with the latest row. One that came too late to end this one says nothing."""
        since = max(time, 0 if before.since is None else before.since)
        if before.raised and since + self._lasting <= now:
            return Outcome(before._replace(since=since).kept)
        if before.raised and before.since is not None:
            said = self._said(before, CLEARED, key, before.since, value, before.message)
        else:
            said = Outcome(before.kept)
        born = now if before.born is None else before.born
        after = State(*(said.state or ()))._replace(since=since, raised=False, value=value, message=message, born=born)
        return Outcome(after.kept, said.rows, {"": since + self._lasting})

    def timer(self, state: Any, at: int, key: tuple[Any, ...], name: str) -> Outcome:
        found = State(*(state or ()))
        if name == _FORGET:
            left = found._replace(memory=None)
            return Outcome(None if found.is_at_rest else left.kept)
        return self._raised(found if found.born is not None else found._replace(born=at), key)

    def _raised(self, state: State, key: Any) -> Outcome:
        assert state.since is not None
        raised = state._replace(raised=True)
        return self._said(raised, RAISED, key, state.since, state.value, state.message)

    def _said(self, state: State, what: str, key: Any, since: int, value: float | None, message: str | None) -> Outcome:
        target = ", ".join("null" if part is None else str(part) for part in key)
        row = (self._id(key, state), target, what, message or self._alert.name, value, since)
        return Outcome(state._replace(notices=state.notices + 1).kept, [row])

    def _id(self, key: Any, state: State) -> str:
        """The same whenever the same rows are read again, and never given twice."""
        return hashlib.sha256(f"{self._query} {key!r} {state.born} {state.notices}".encode()).hexdigest()[:24]


def _forgotten_at(test: Change | Deviation, latest: int) -> int:
    """When nothing of what is remembered can be compared with any more; `latest` is the last part or hour of it."""
    if isinstance(test, Change):
        return (latest + 1) * _part(test) + millis(test.within)
    return (latest + 1) * _HOUR + millis(test.over)
