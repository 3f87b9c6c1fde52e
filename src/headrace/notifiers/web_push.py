"""Sends web push notifications to subscribed browsers, through the push services of their vendors.

A message goes to all subscriptions whose owners may see its alert now. Expired subscriptions are removed. Each browser
is handled separately: once some have the message, an unreachable one is retried a few times and then skipped. A browser
that has received nothing for a day is removed. `tag` is the message's id, so a browser shows a repeated message only
once.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from headrace.errors import BadRequest, DeliveryRefused, HeadraceError, MissingDependency
from headrace.notifiers.contract import Message, RetryLater, SenderContext, retry_later
from headrace.notifiers.http_post import is_valid_url, post
from headrace.notifiers.push_subscriptions import PushSubscription
from headrace.plan.notifiers import Notifier

_MESSAGE_TTL = 24 * 3600  # seconds that a push service stores a message for an offline browser
_URGENCY = {"info": "low", "warning": "normal", "critical": "high"}
_GONE = (404, 410)
_TRIES = 3  # attempts for an unreachable browser once others have the message
_MAX_DELAY = 10.0  # seconds that one browser may delay the next messages
_FAILED = 5  # failed messages in a row, during at least
_FAILING = 24 * 3600.0  # seconds: then the subscription is removed
_LONGEST_ENDPOINT = 2_000  # characters
_logger = logging.getLogger(__name__)


def require_library() -> None:
    if find_spec("cryptography") is None:
        raise MissingDependency('web push needs the library "cryptography"', fix="pip install 'headrace[push]'")


@dataclass
class PushProgress:
    """Delivery progress of one message: who has it, who is skipped, and the number of attempts for the others."""

    message: str = ""
    reached: set[str] = field(default_factory=set)
    left_out: dict[str, HeadraceError] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)

    @property
    def unreached(self) -> set[str]:
        return (self.left_out.keys() | self.tries.keys()) - self.reached


class WebPushSender:
    def __init__(self, notifier: Notifier, context: SenderContext) -> None:
        self._notifier = notifier
        self._context = context
        self._progress = PushProgress()
        self._failing: dict[str, tuple[int, float]] = {}
        """By subscription: how many messages failed since the last success, and when the first of them failed."""

    def send(self, message: Message) -> None:
        require_library()
        if self._progress.message != message.id:
            self._count_failed()
            self._progress = PushProgress(message.id)
        late = {
            one.id: error for one in self._remaining(message) if (error := self._try_send(message, one)) is not None
        }
        now = self._progress
        if waiting := [error for id, error in late.items() if self._retries_later(id, error)]:
            pause = max(error.seconds or 0.0 for error in waiting)
            raise retry_later(waiting[0].what, pause or None, some=bool(now.reached))
        if now.left_out and not now.reached:
            raise next(iter(now.left_out.values()))

    def _remaining(self, message: Message) -> list[PushSubscription]:
        queries = {notice.query for notice in message.notices} - {""}  # a test message has no query
        done = self._progress.reached | self._progress.left_out.keys()
        subscriptions = (one for one in self._context.subscriptions.of(self._notifier.name) if one.id not in done)
        return [one for one in subscriptions if all(self._context.is_shown(one.owner, query) for query in queries)]

    def _try_send(self, message: Message, subscription: PushSubscription) -> RetryLater | None:
        """The reason for a retry, if one is needed. An error of one browser does not affect the others."""
        now, id = self._progress, subscription.id
        now.tries[id] = now.tries.get(id, 0) + 1
        try:
            self._send(message, subscription)
        except RetryLater as error:
            return error
        except HeadraceError as error:
            self._skip(id, error)
        except Exception as error:
            _logger.error("a browser could not be notified", exc_info=error)
            self._skip(id, DeliveryRefused(f"a browser could not be notified: {type(error).__name__}"))
        return None

    def _retries_later(self, id: str, error: RetryLater) -> bool:
        """Whether to retry: always while no browser has the message, afterwards only for a limited time."""
        now = self._progress
        if not now.reached or (now.tries[id] < _TRIES and (error.seconds or 0.0) <= _MAX_DELAY):
            return True
        self._skip(id, error)
        return False

    def _skip(self, id: str, error: HeadraceError) -> None:
        _logger.warning("notifier %s: subscription %s is skipped: %s", self._notifier.name, id, error.what)
        self._progress.left_out[id] = error

    def _count_failed(self) -> None:
        """Runs when the next message arrives: counts a failure for each browser that did not get the previous one."""
        for id in self._progress.unreached:
            count, since = self._failing.get(id, (0, time.monotonic()))
            self._failing[id] = (count + 1, since)
            if count + 1 >= _FAILED and time.monotonic() - since >= _FAILING:
                _logger.warning("notifier %s: subscription %s has expired and is removed", self._notifier.name, id)
                self._context.subscriptions.remove(id)
                del self._failing[id]

    def _send(self, message: Message, subscription: PushSubscription) -> None:
        from headrace.notifiers.push_encryption import encrypt_message, load_server_key, vapid_authorization

        settings = self._context.settings
        body = encrypt_message(notification_payload(message), subscription.p256dh, subscription.auth)
        headers = {
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(_MESSAGE_TTL),
            "Urgency": _URGENCY[message.severity],
            "Authorization": vapid_authorization(
                load_server_key(settings.storage.data), subscription.endpoint, settings.notifiers.smtp_from
            ),
        }
        status = post(subscription.endpoint, body, headers, settings.notifiers.webhook_allowed_private)
        if status in _GONE:
            self._context.subscriptions.remove(subscription.id)
            del self._progress.tries[subscription.id]
        elif not 200 <= status < 300:
            raise DeliveryRefused(f"the push service responded with {status}", fix="subscribe again in the browser")
        else:
            self._progress.reached.add(subscription.id)
            self._failing.pop(subscription.id, None)


def notification_payload(message: Message) -> bytes:
    """The JSON that the browser's service worker shows; lines that do not fit are dropped."""
    from headrace.notifiers.push_encryption import MAX_MESSAGE_BYTES

    document: dict[str, Any] = {"title": message.title[:200], "severity": message.severity, "tag": message.id}
    for count in range(len(message.lines), -1, -1):
        body = json.dumps({**document, "body": "\n".join(message.lines[:count])}).encode()
        if len(body) <= MAX_MESSAGE_BYTES:
            return body
    return json.dumps(document).encode()


def public_key(context: SenderContext) -> str:
    """The key with which a browser subscribes (`applicationServerKey`)."""
    require_library()
    from headrace.notifiers.push_encryption import base64url_encode, load_server_key, public_bytes

    return base64url_encode(public_bytes(load_server_key(context.settings.storage.data)))


def check_subscription(subscription: PushSubscription) -> PushSubscription:
    """Refuse invalid encryption keys and invalid endpoints."""
    require_library()
    from headrace.notifiers.push_encryption import encrypt_message

    try:
        encrypt_message(b"", subscription.p256dh, subscription.auth)
    except ValueError as error:
        raise BadRequest(
            "these are not valid keys of a subscription", fix="send p256dh and auth as provided by the browser"
        ) from error
    endpoint = subscription.endpoint
    if not (endpoint.startswith("https://") and len(endpoint) <= _LONGEST_ENDPOINT and is_valid_url(endpoint)):
        raise BadRequest(
            "this is not an endpoint of a push service",
            fix="send the endpoint that the browser provides; it begins with https://",
        )
    return subscription
