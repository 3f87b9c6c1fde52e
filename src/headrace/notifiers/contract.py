"""The contract of senders: what a sender gets and what it guarantees.

A `Sender` sends one message and returns when the receiver has accepted it. It raises `NotDelivered` if a retry may
help, with the delay that the receiver asked for, and `DeliveryRefused` if a retry cannot help. A message that is sent
again, after a crash or a lost response, has the same id, so receivers can deduplicate by id.

A sender with several recipients remembers which of them have the message, and retries only the others.
`PartlyDelivered` means that some have it and the others never will: that counts as sent, with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from headrace.errors import DeliveryRefused, NotDelivered
from headrace.notifiers.push_subscriptions import PushSubscriptions
from headrace.plan.notifiers import Notifier
from headrace.settings import Settings


@dataclass(frozen=True)
class Notice:
    """A notice as stored in the topic. `target` is the key that it is about; times are in ms."""

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
        """`HOT raised: d1`, or the number of notices per state."""
        if len(self.notices) == 1:
            (one,) = self.notices
            return f"{self.alert} {one.state}" + (f": {one.target}" if one.target else "")
        states = Counter(one.state for one in self.notices)
        return f"{self.alert}: {', '.join(f'{count} {state}' for state, count in states.items())}"

    @property
    def lines(self) -> list[str]:
        return [f"{one.state} {one.target}: {one.message}" for one in self.notices]

    def document(self) -> dict[str, Any]:
        """The message as a JSON object."""
        notices = [{name: value for name, value in asdict(one).items() if name != "notify"} for one in self.notices]
        return {"id": self.id, "alert": self.alert, "severity": self.severity, "title": self.title, "notices": notices}


class Sender(Protocol):
    def send(self, message: Message) -> None: ...


@dataclass(frozen=True)
class SenderContext:
    """What senders share. `is_shown(owner, query)`: whether a subscription's owner may see the alerts of a query."""

    settings: Settings
    subscriptions: PushSubscriptions
    is_shown: Callable[[str, str], bool] = lambda owner, query: True


SenderFactory = Callable[[Notifier, SenderContext], Sender]
"""Creates a sender. References in a notifier's options are resolved when a message is sent."""


class RetryLater(NotDelivered):
    """Not delivered; `seconds` is the delay that the receiver asked for. With `some`, other recipients have it."""

    seconds: float | None = None
    some: bool = False


class PartlyDelivered(DeliveryRefused):
    """Some recipients have the message; retries cannot deliver it to the others."""


def retry_later(what: str, seconds: float | None = None, *, some: bool = False) -> RetryLater:
    error = RetryLater(what, fix="it is retried automatically")
    error.seconds, error.some = seconds, some
    return error
