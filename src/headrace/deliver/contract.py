"""What a sender is given, and what it promises.

A `Sender` sends one message and returns when the other side has taken it. It raises `NotDelivered` if it is worth
another try, with the time that the other side asked to wait, and `DeliveryRefused` if it is not. A message that is sent
again, after a crash or a lost answer, has the same id: who must not act twice tells by that.

One that sends to several remembers who has the message, and tries only the others again. `Partly` says that some have
it and the others will not: that is sent, with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from headrace.deliver.subscriptions import Subscriptions
from headrace.errors import DeliveryRefused, NotDelivered
from headrace.plan.notifiers import Notifier
from headrace.settings import Settings


@dataclass(frozen=True)
class Notice:
    """As it lies in the topic; `target` is the key that it is about, times are in ms."""

    id: str
    alert: str
    query: str
    target: str
    state: str
    severity: str
    message: str
    value: float | None
    since: int
    at: int
    notify: tuple[str, ...] = ()


@dataclass(frozen=True)
class Message:
    """One or more notices of one alert."""

    id: str
    alert: str
    notices: tuple[Notice, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(one.id for one in self.notices)

    @property
    def severity(self) -> str:
        return self.notices[-1].severity

    @property
    def title(self) -> str:
        """`HOT raised: d1`, or how many of each there are."""
        if len(self.notices) == 1:
            (one,) = self.notices
            return f"{self.alert} {one.state}" + (f": {one.target}" if one.target else "")
        states = Counter(one.state for one in self.notices)
        return f"{self.alert}: {', '.join(f'{count} {state}' for state, count in states.items())}"

    @property
    def lines(self) -> list[str]:
        return [f"{one.state} {one.target}: {one.message}" for one in self.notices]

    def document(self) -> dict[str, Any]:
        """The message as JSON has it."""
        notices = [{name: value for name, value in asdict(one).items() if name != "notify"} for one in self.notices]
        return {"id": self.id, "alert": self.alert, "severity": self.severity, "title": self.title, "notices": notices}


class Sender(Protocol):
    def send(self, message: Message) -> None: ...


@dataclass(frozen=True)
class Means:
    """What senders share. `is_shown` tells of a subscription's owner and an alert's query whether they may see it."""

    settings: Settings
    subscriptions: Subscriptions
    is_shown: Callable[[str, str], bool] = lambda owner, query: True


Make = Callable[[Notifier, Means], Sender]
"""References in a notifier's options are resolved when something is sent."""


class Later(NotDelivered):
    """Not delivered, and the other side has said how many seconds to wait. `some` of several may have it."""

    seconds: float | None = None
    some: bool = False


class Partly(DeliveryRefused):
    """Some have it, and the others will not, however often it is tried."""


def later(what: str, seconds: float | None = None, *, some: bool = False) -> Later:
    error = Later(what, fix="it is tried again by itself")
    error.seconds, error.some = seconds, some
    return error
