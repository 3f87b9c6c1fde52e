"""Stores the browsers' push subscriptions in the log, by notifier and endpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container
from dataclasses import asdict, dataclass

from headrace.contracts import Log, TopicSpec
from headrace.errors import BadRequest
from headrace.log.folded_topic import FoldedTopic, latest_by_key
from headrace.record import Record

TOPIC = "__alerts_push"
MAX_SUBSCRIPTIONS = 1_000
"""Limit per notifier."""


@dataclass(frozen=True)
class PushSubscription:
    """What a browser's PushManager returns: the endpoint, and the keys with which only this browser decrypts messages.

    `owner` is the name of the user who subscribed.
    """

    notifier: str
    endpoint: str
    p256dh: str
    auth: str
    owner: str = ""

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.notifier} {self.endpoint}".encode()).hexdigest()[:24]


_ById = dict[str, PushSubscription]


class PushSubscriptions:
    """Thread-safe."""

    def __init__(self, log: Log) -> None:
        fold = latest_by_key(lambda _, value: PushSubscription(**json.loads(value)))
        self._topic = FoldedTopic[_ById](log, TOPIC, dict, fold, TopicSpec(compact=True))

    def of(self, notifier: str) -> list[PushSubscription]:
        return self._topic.read(lambda known: _of(known, notifier))

    def get(self, id: str) -> PushSubscription | None:
        return self._topic.read(lambda known: known.get(id))

    def add(self, subscription: PushSubscription) -> None:
        """Replaces an earlier subscription of the same browser."""

        def decide(known: _ById) -> tuple[list[Record], None]:
            if subscription.id not in known and len(_of(known, subscription.notifier)) >= MAX_SUBSCRIPTIONS:
                raise BadRequest(
                    f'{MAX_SUBSCRIPTIONS} browsers have already subscribed to notifier "{subscription.notifier}"',
                    fix="remove one, or create another notifier",
                )
            return [Record(json.dumps(asdict(subscription)).encode(), subscription.id.encode())], None

        self._topic.change(decide)

    def remove(self, id: str) -> None:
        self._remove(lambda one: one.id == id)

    def keep(self, notifiers: Container[str]) -> None:
        """Remove the subscriptions of all other notifiers."""
        self._remove(lambda one: one.notifier not in notifiers)

    def _remove(self, is_over: Callable[[PushSubscription], bool]) -> None:
        over = self._topic.read(lambda known: [Record(None, id.encode()) for id, one in known.items() if is_over(one)])
        if over:
            self._topic.append(over)


def _of(known: _ById, notifier: str) -> list[PushSubscription]:
    return [one for one in known.values() if one.notifier == notifier]
