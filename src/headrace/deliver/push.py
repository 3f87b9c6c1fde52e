"""Web push: a notification in the browsers that have subscribed, by the push services of their makers.

A message goes to all whose owners may see its alert now. One whose subscription has ended is forgotten. Each is settled
by itself: if some have the message, one that could not be reached is tried a few times more and then left out, and one
that has got nothing for a day is forgotten. `tag` is the message's id: a browser shows what it gets twice only once.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from headrace.deliver.contract import Later, Means, Message, later
from headrace.deliver.posting import is_callable, post
from headrace.deliver.subscriptions import Subscription
from headrace.errors import BadRequest, DeliveryRefused, HeadraceError, MissingPart
from headrace.plan.notifiers import Notifier

_KEPT = 24 * 3600  # seconds that a push service keeps a message for a browser that is off
_URGENCY = {"info": "low", "warning": "normal", "critical": "high"}
_GONE = (404, 410)
_TRIES = 3  # for one who cannot be reached, while others have the message
_LONGEST = 10.0  # seconds that others' messages wait because of one
_FAILED = 5  # messages in a row, over
_FAILING = 24 * 3600.0  # seconds: then a browser is forgotten
_LONGEST_ENDPOINT = 2_000  # letters
_logger = logging.getLogger(__name__)


def require_library() -> None:
    if find_spec("cryptography") is None:
        raise MissingPart('web push needs the library "cryptography"', fix="pip install 'headrace[push]'")


@dataclass
class Round:
    """One message on its way to all: who has it, who is left out, and how often others were tried."""

    message: str = ""
    reached: set[str] = field(default_factory=set)
    left_out: dict[str, HeadraceError] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)

    @property
    def unreached(self) -> set[str]:
        return (self.left_out.keys() | self.tries.keys()) - self.reached


class Push:
    def __init__(self, notifier: Notifier, means: Means) -> None:
        self._notifier = notifier
        self._means = means
        self._round = Round()
        self._failing: dict[str, tuple[int, float]] = {}
        """By subscription: how many messages did not get through since one did, and when the first of them was."""

    def send(self, message: Message) -> None:
        require_library()
        if self._round.message != message.id:
            self._count_failed()
            self._round = Round(message.id)
        late = {one.id: error for one in self._left(message) if (error := self._tried(message, one)) is not None}
        now = self._round
        if waiting := [error for id, error in late.items() if self._is_waited_for(id, error)]:
            asked = max(error.seconds or 0.0 for error in waiting)
            raise later(waiting[0].what, asked or None, some=bool(now.reached))
        if now.left_out and not now.reached:
            raise next(iter(now.left_out.values()))

    def _left(self, message: Message) -> list[Subscription]:
        queries = {notice.query for notice in message.notices} - {""}  # a test has none
        done = self._round.reached | self._round.left_out.keys()
        there = (one for one in self._means.subscriptions.of(self._notifier.name) if one.id not in done)
        return [one for one in there if all(self._means.is_shown(one.owner, query) for query in queries)]

    def _tried(self, message: Message, subscription: Subscription) -> Later | None:
        """Why it is to be tried again, if it is. Whatever is wrong with one browser is nothing to the others."""
        now, id = self._round, subscription.id
        now.tries[id] = now.tries.get(id, 0) + 1
        try:
            self._told(message, subscription)
        except Later as error:
            return error
        except HeadraceError as error:
            self._leave_out(id, error)
        except Exception as error:
            _logger.error("a browser could not be told", exc_info=error)
            self._leave_out(id, DeliveryRefused(f"a browser could not be told: {type(error).__name__}"))
        return None

    def _is_waited_for(self, id: str, error: Later) -> bool:
        """As long as nobody has the message it is tried again; then only for a while."""
        now = self._round
        if not now.reached or (now.tries[id] < _TRIES and (error.seconds or 0.0) <= _LONGEST):
            return True
        self._leave_out(id, error)
        return False

    def _leave_out(self, id: str, error: HeadraceError) -> None:
        _logger.warning("notifier %s: subscription %s is left out: %s", self._notifier.name, id, error.what)
        self._round.left_out[id] = error

    def _count_failed(self) -> None:
        """When the next message comes, who has not got the one before."""
        for id in self._round.unreached:
            count, since = self._failing.get(id, (0, time.monotonic()))
            self._failing[id] = (count + 1, since)
            if count + 1 >= _FAILED and time.monotonic() - since >= _FAILING:
                _logger.warning("notifier %s: subscription %s is forgotten", self._notifier.name, id)
                self._means.subscriptions.remove(id)
                del self._failing[id]

    def _told(self, message: Message, subscription: Subscription) -> None:
        from headrace.deliver.encryption import encrypted, proof, server_key

        settings = self._means.settings
        body = encrypted(shown(message), subscription.p256dh, subscription.auth)
        headers = {
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(_KEPT),
            "Urgency": _URGENCY[message.severity],
            "Authorization": proof(server_key(settings.data), subscription.endpoint, settings.smtp_from),
        }
        status = post(subscription.endpoint, body, headers, settings.webhook_private)
        if status in _GONE:
            self._means.subscriptions.remove(subscription.id)
            del self._round.tries[subscription.id]
        elif not 200 <= status < 300:
            raise DeliveryRefused(f"a push service answered {status}", fix="let the browser subscribe again")
        else:
            self._round.reached.add(subscription.id)
            self._failing.pop(subscription.id, None)


def shown(message: Message) -> bytes:
    """What the browser's service worker shows; lines that do not fit are left out."""
    from headrace.deliver.encryption import MOST

    document: dict[str, Any] = {"title": message.title[:200], "severity": message.severity, "tag": message.id}
    for count in range(len(message.lines), -1, -1):
        body = json.dumps({**document, "body": "\n".join(message.lines[:count])}).encode()
        if len(body) <= MOST:
            return body
    return json.dumps(document).encode()


def public_key(means: Means) -> str:
    """What a browser subscribes with (`applicationServerKey`)."""
    require_library()
    from headrace.deliver.encryption import encoded, public_bytes, server_key

    return encoded(public_bytes(server_key(means.settings.data)))


def checked(subscription: Subscription) -> Subscription:
    """Refuse keys that no message could be encrypted with, and what is no endpoint."""
    require_library()
    from headrace.deliver.encryption import encrypted

    try:
        encrypted(b"", subscription.p256dh, subscription.auth)
    except ValueError as error:
        raise BadRequest(
            "these are no keys of a subscription", fix="send p256dh and auth as the browser gives them"
        ) from error
    endpoint = subscription.endpoint
    if not (endpoint.startswith("https://") and len(endpoint) <= _LONGEST_ENDPOINT and is_callable(endpoint)):
        raise BadRequest(
            "this is no endpoint of a push service", fix="send what the browser gives; it begins with https://"
        )
    return subscription
