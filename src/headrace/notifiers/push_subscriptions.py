"""Stores the browsers' push subscriptions in the log, by notifier and endpoint."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Container
from dataclasses import asdict, dataclass

from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import BadRequest, UnknownTopic
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
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


class PushSubscriptions:
    """Thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._turn = threading.Lock()
        self._known: dict[str, PushSubscription] = {}
        self._read = 0

    def of(self, notifier: str) -> list[PushSubscription]:
        with self._turn:
            self._follow()
            return [one for one in self._known.values() if one.notifier == notifier]

    def get(self, id: str) -> PushSubscription | None:
        with self._turn:
            self._follow()
            return self._known.get(id)

    def add(self, subscription: PushSubscription) -> None:
        """Replaces an earlier subscription of the same browser."""
        with self._turn:
            ensure_topic(self._log, TOPIC, TopicSpec(compact=True))
            self._follow()
            there = [one for one in self._known.values() if one.notifier == subscription.notifier]
            if subscription.id not in self._known and len(there) >= MAX_SUBSCRIPTIONS:
                raise BadRequest(
                    f'{MAX_SUBSCRIPTIONS} browsers have subscribed to notifier "{subscription.notifier}" already',
                    fix="remove one, or let another notifier send to further ones",
                )
            self._write({subscription.id: json.dumps(asdict(subscription)).encode()})

    def remove(self, id: str) -> None:
        with self._turn:
            self._follow()
            if id in self._known:
                self._write({id: None})

    def keep(self, notifiers: Container[str]) -> None:
        """Remove the subscriptions of all other notifiers."""
        with self._turn:
            self._follow()
            self._write({id: None for id, one in self._known.items() if one.notifier not in notifiers})

    def _write(self, values: dict[str, bytes | None]) -> None:
        records = [Record(value, id.encode()) for id, value in values.items()]
        if records:
            self._log.append([Append(TOPIC, from_records(records), 0)])

    def _follow(self) -> None:
        try:
            start, end = self._log.bounds(TOPIC)[0]
        except UnknownTopic:
            return
        self._read = max(self._read, start)
        while self._read < end:
            batch = self._log.read(TOPIC, 0, self._read)
            for record in batch.records():
                id = (record.key or b"").decode()
                if record.value is None:
                    self._known.pop(id, None)
                else:
                    self._known[id] = PushSubscription(**json.loads(record.value))
            self._read = batch.next_offset
