"""Sends messages as signed JSON POST requests to a URL.

`Idempotency-Key` is the message's id, the same on every retry. With a secret, `Headrace-Signature` is `v1=` plus the
hex HMAC-SHA256 over `Headrace-Timestamp` (seconds), a dot, and the body.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time

from headrace.errors import DeliveryRefused
from headrace.notifiers.contract import Message, SenderContext
from headrace.notifiers.http_post import post
from headrace.plan.notifiers import Notifier
from headrace.secrets import resolve_secrets


class WebhookSender:
    def __init__(self, notifier: Notifier, context: SenderContext) -> None:
        self._options = notifier.options
        self._private = context.settings.notifiers.webhook_allowed_private
        self._data = context.settings.storage.data

    def send(self, message: Message) -> None:
        body = json.dumps(message.document()).encode()
        status = post(self._option("url"), body, self._headers(message, body), self._private)
        if not 200 <= status < 300:
            fix = "use the URL that it redirects to" if 300 <= status < 400 else "see the receiver's documentation"
            raise DeliveryRefused(f"the receiver responded with {status}", fix=fix)

    def _headers(self, message: Message, body: bytes) -> dict[str, str]:
        at = str(int(time.time()))
        headers = {"Content-Type": "application/json", "User-Agent": "headrace", "Idempotency-Key": message.id}
        headers["Headrace-Timestamp"] = at
        if self._options["secret"]:
            headers["Headrace-Signature"] = sign(self._option("secret"), at, body)
        if self._options["authorization"]:
            headers["Authorization"] = self._option("authorization")
        return headers

    def _option(self, name: str) -> str:
        return resolve_secrets(self._options[name], self._data).reveal()


def sign(secret: str, at: str, body: bytes) -> str:
    return f"v1={hmac.new(secret.encode(), at.encode() + b'.' + body, hashlib.sha256).hexdigest()}"
