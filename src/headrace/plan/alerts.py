"""Alert rules: when a rule raises and clears an alert for a key, and the notices it emits.

A rule reads rows of three columns that a Select below it computes: whether the condition holds, the watched value, and
the message. It is an operator with state and timers per key like any other, so it gives the same results in the chain
and in Spark, and again after a crash.

    Condition   the row itself says whether it holds
    Change      the value has changed by some amount against a value within a time span before
    Deviation   the value is far from the values of the same hour on previous days
    Absence     no row has arrived for some time

An alert is *raised* for a key when the test has held for as long as the rule requires, and *cleared* when it no longer
holds. Between the two the rule emits nothing. With `each`, every row for which the test holds is an event, and nothing
is cleared.
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
from headrace.plan.expressions import Compare
from headrace.plan.operators import OperatorDefinition, OperatorResult
from headrace.plan.relations import Format, Kind, Relation
from headrace.plan.sources import SourceInfo
from headrace.schema import Field
from headrace.settings import duration_text

RAISED, CLEARED, EVENT = "raised", "cleared", "event"
SEVERITIES = ("info", "warning", "critical")
MIN_DAYS = 5
"""With fewer previous days than this, a deviation never holds."""

RULE_INPUT = (Field("$holds", t.BOOLEAN), Field("$value", t.DOUBLE), Field("$message", t.STRING))
"""The input columns of a rule; the key's columns may follow them."""
RULE_OUTPUT = (
    Field("ID", t.STRING),
    Field("TARGET", t.STRING),
    Field("STATE", t.STRING),
    Field("MESSAGE", t.STRING),
    Field("VALUE", t.DOUBLE),
    Field("SINCE", t.BIGINT),
)
"""The output columns of a rule: TARGET is the key as text, SINCE the time at which the test began to hold."""
TOPIC = "__alerts"
ALERTS_STREAM = SourceInfo(
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
class ConditionTest:
    def __str__(self) -> str:
        return "it holds"


@dataclass(frozen=True)
class ChangeTest:
    """Compares to `by` the difference from a value at most `within` older, absolute or in `percent` of it."""

    op: Compare
    by: float
    percent: bool
    within: timedelta

    def __str__(self) -> str:
        unit = "%" if self.percent else ""
        return f"the change within {duration_text(self.within)} is {self.op} {self.by:g}{unit}"


@dataclass(frozen=True)
class DeviationTest:
    """Holds if the value is more than `by` deviations from the median of the same hour on the days of `over`."""

    by: float
    over: timedelta

    def __str__(self) -> str:
        return f"it deviates by {self.by:g} from the same hour of {self.over.days} days"


@dataclass(frozen=True)
class AbsenceTest:
    def __str__(self) -> str:
        return "no row comes"


AlertTest = ConditionTest | ChangeTest | DeviationTest | AbsenceTest


@dataclass(frozen=True)
class AlertRule:
    test: AlertTest
    lasting: timedelta = timedelta(0)
    each: bool = False

    def __str__(self) -> str:
        if self.each:
            return f"raised whenever {self.test}"
        return f"raised when {self.test}" + (f" for {duration_text(self.lasting)}" if self.lasting else "")


@dataclass(frozen=True)
class Alert:
    """An alert as its statement declares it, without its query. `notify` names the notifiers it sends to."""

    name: str
    source: str
    rule: AlertRule
    severity: str
    notify: tuple[str, ...] = ()


def alert_operator(alert: Alert, query: str, nulls: NullMeaning) -> OperatorDefinition:
    """Returns the operator of an alert's query; `nulls` says what a row without a payload means."""
    work = partial(AlertOperator, alert, query, nulls)
    return OperatorDefinition(f"alert {alert.name}", str(alert.rule), RULE_OUTPUT, work, deletions=True)


# -- tests: their state per key, and whether they hold --------------------------------------------------------------

_DAY, _HOUR = millis(timedelta(days=1)), millis(timedelta(hours=1))
_PARTS = 60  # parts of the time span of a change; the lowest and the highest value of each are stored
_OPS: Mapping[Compare, Callable[[float, float], bool]] = {
    Compare.LESS: lt,
    Compare.LESS_OR_EQUAL: le,
    Compare.GREATER: gt,
    Compare.GREATER_OR_EQUAL: ge,
}
_AS_NORMAL = 1.4826  # a normal distribution's standard deviation in terms of the median absolute deviation
_LEAST_SPREAD = 0.01  # of the median: values that were always equal may still differ a little


def evaluate_change(test: ChangeTest, memory: Any, time: int, value: float) -> tuple[bool, Any]:
    """Evaluates a change test; `memory` maps a part of the time span to its lowest and highest value."""
    length = _part(test)
    part, first = time // length, (time - millis(test.within)) // length
    recent = {at: bounds for at, bounds in (memory or {}).items() if at >= first}
    holds = any(_is_change(test, value, other) for at in recent if at <= part for other in recent[at])
    low, high = recent.get(part, (value, value))
    return holds, {**recent, part: (min(low, value), max(high, value))}


def _part(test: ChangeTest) -> int:
    return max(millis(test.within) // _PARTS, 1)


def _is_change(test: ChangeTest, value: float, before: float) -> bool:
    if not test.percent:
        return _OPS[test.op](value - before, test.by)
    return before != 0 and _OPS[test.op](100 * (value - before) / abs(before), test.by)


def evaluate_deviation(test: DeviationTest, memory: Any, time: int, value: float) -> tuple[bool, Any]:
    """Evaluates a deviation test; `memory` maps an hour since 1970 to the sum and the count of its values."""
    hour = time // _HOUR
    recent = {at: sums for at, sums in (memory or {}).items() if at >= hour - test.over.days * 24}
    past = [total / count for at, (total, count) in recent.items() if at < hour and (hour - at) % 24 == 0]
    total, count = recent.get(hour, (0.0, 0))
    return _is_far(test, value, past), {**recent, hour: (total + value, count + 1)}


def _is_far(test: DeviationTest, value: float, past: list[float]) -> bool:
    if len(past) < MIN_DAYS:
        return False
    middle = median(past)
    spread = _AS_NORMAL * median(abs(one - middle) for one in past)
    return abs(value - middle) > test.by * max(spread, _LEAST_SPREAD * abs(middle))


# -- operator -------------------------------------------------------------------------------------------------------

_FORGET = "forget"
"""Name of the timer that drops a key's stored values; the timer of FOR and of an absence has an empty name."""


class NullMeaning(StrEnum):
    """What a row without a payload means: the row is deleted, a row without values came, or no row came."""

    DELETED = "deleted"
    ARRIVED = "arrived"
    IGNORED = "ignored"


class AlertState(NamedTuple):
    """The state of one key. `since` is when the test began to hold; `value` and `message` are those of that row."""

    notices: int = 0
    """Number of notices since `created`."""
    since: int | None = None
    raised: bool = False
    value: float | None = None
    message: str | None = None
    memory: Any = None
    created: int | None = None
    """Stream time at which the key first had something to report, or had again after its state was dropped."""

    @property
    def stored(self) -> tuple[Any, ...] | None:
        """The state as it is stored; None for a key without notices and without stored values."""
        return None if self._replace(created=None) == AlertState() else tuple(self)

    @property
    def is_idle(self) -> bool:
        return self.since is None and not self.raised


class AlertOperator:
    """Runs a rule.

    A notice id is derived from the key, the time its state was created, and the number of notices since. A state that
    has emitted a notice is dropped only after stream time has passed its creation, so no other state of the key is
    created at the same time.
    """

    def __init__(self, alert: Alert, query: str, nulls: NullMeaning, input: Relation) -> None:
        del input  # it is `RULE_INPUT`, under the alert's key
        self._alert = alert
        self._query = query
        self._nulls = nulls
        self._lasting = millis(alert.rule.lasting)
        self._is_absence = isinstance(alert.rule.test, AbsenceTest)

    def event(
        self, state: Any, now: int, time: int, key: tuple[Any, ...], row: tuple[Any, ...] | None
    ) -> OperatorResult:
        before = AlertState(*(state or ()))
        if row is None:
            return self._null(before, now, time, key)
        holds, value, message = row[: len(RULE_INPUT)]
        if self._is_absence:
            return self._row_arrived(before, now, time, key, value, message)
        test = self._alert.rule.test
        if isinstance(test, ChangeTest | DeviationTest):
            return self._compared(test, before, now, time, key, value, message)
        if not holds:
            return self._not_holding(before, now, key, value)
        return self._holding(before, now, time, key, value, message)

    def _null(self, before: AlertState, now: int, time: int, key: Any) -> OperatorResult:
        if self._nulls is NullMeaning.DELETED:
            return self._not_holding(before, now, key, None)
        if self._nulls is NullMeaning.ARRIVED and self._is_absence:
            return self._row_arrived(before, now, time, key, None, before.message)
        return OperatorResult(before.stored)

    def _compared(
        self,
        test: ChangeTest | DeviationTest,
        before: AlertState,
        now: int,
        time: int,
        key: Any,
        value: Any,
        message: str | None,
    ) -> OperatorResult:
        """Compares the value with the stored ones. NaN and infinities are ignored: they would corrupt those."""
        if value is None or not isfinite(value):
            return OperatorResult(before.stored)
        evaluate = partial(evaluate_change, test) if isinstance(test, ChangeTest) else partial(evaluate_deviation, test)
        holds, memory = evaluate(before.memory, time, value)
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
        self, before: AlertState, now: int, time: int, key: Any, value: float | None, message: str | None
    ) -> OperatorResult:
        created = before._replace(created=now if before.created is None else before.created)
        if self._alert.rule.each:
            return self._drop_if_idle(self._notice(created, EVENT, key, time, value, message), now)
        if before.raised or before.since is not None:
            return OperatorResult(before.stored)
        since = created._replace(since=time, value=value, message=message)
        if not self._lasting:
            return self._raised(since, key)
        return OperatorResult(since.stored, timers={"": time + self._lasting})

    def _not_holding(self, before: AlertState, now: int, key: Any, value: float | None) -> OperatorResult:
        after = before._replace(since=None, raised=False, value=None, message=None)
        if before.is_idle:
            return OperatorResult(after.stored)
        if not before.raised or before.since is None:
            return self._drop_if_idle(OperatorResult(after.stored, timers={"": None}), now)
        return self._drop_if_idle(self._notice(after, CLEARED, key, before.since, value, before.message), now)

    def _drop_if_idle(self, outcome: OperatorResult, now: int) -> OperatorResult:
        """Drops the state of a key without anything to report, at once if that is allowed, else by a timer."""
        state = AlertState(*(outcome.state or ()))
        if state.memory is not None or outcome.state is None:  # stored values have a timer of their own
            return outcome
        if not state.notices or (state.created is not None and state.created < now):
            return OperatorResult(None, outcome.rows, outcome.timers)
        return OperatorResult(outcome.state, outcome.rows, {**outcome.timers, _FORGET: now + _HOUR})

    def _row_arrived(
        self, before: AlertState, now: int, time: int, key: Any, value: float | None, message: str | None
    ) -> OperatorResult:
        """Handles a row for an absence rule: the next absence begins with the latest row.

        A row that is too late to end the current absence emits nothing.
        """
        since = max(time, 0 if before.since is None else before.since)
        if before.raised and since + self._lasting <= now:
            return OperatorResult(before._replace(since=since).stored)
        if before.raised and before.since is not None:
            outcome = self._notice(before, CLEARED, key, before.since, value, before.message)
        else:
            outcome = OperatorResult(before.stored)
        created = now if before.created is None else before.created
        after = AlertState(*(outcome.state or ()))._replace(
            since=since, raised=False, value=value, message=message, created=created
        )
        return OperatorResult(after.stored, outcome.rows, {"": since + self._lasting})

    def timer(self, state: Any, at: int, key: tuple[Any, ...], name: str) -> OperatorResult:
        alert = AlertState(*(state or ()))
        if name == _FORGET:
            without_memory = alert._replace(memory=None)
            return OperatorResult(None if alert.is_idle else without_memory.stored)
        return self._raised(alert if alert.created is not None else alert._replace(created=at), key)

    def _raised(self, state: AlertState, key: Any) -> OperatorResult:
        assert state.since is not None
        raised = state._replace(raised=True)
        return self._notice(raised, RAISED, key, state.since, state.value, state.message)

    def _notice(
        self, state: AlertState, what: str, key: Any, since: int, value: float | None, message: str | None
    ) -> OperatorResult:
        target = ", ".join("null" if part is None else str(part) for part in key)
        row = (self._id(key, state), target, what, message or self._alert.name, value, since)
        return OperatorResult(state._replace(notices=state.notices + 1).stored, [row])

    def _id(self, key: Any, state: AlertState) -> str:
        """Returns a notice id that is the same on every replay of the same rows, and unique."""
        return hashlib.sha256(f"{self._query} {key!r} {state.created} {state.notices}".encode()).hexdigest()[:24]


def _forgotten_at(test: ChangeTest | DeviationTest, latest: int) -> int:
    """Returns when the stored values can no longer be compared with anything; `latest` is their last part or hour."""
    if isinstance(test, ChangeTest):
        return (latest + 1) * _part(test) + millis(test.within)
    return (latest + 1) * _HOUR + millis(test.over)
