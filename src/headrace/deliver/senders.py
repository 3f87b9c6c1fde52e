"""All kinds of senders, by the names that `plan.notifiers` gives them."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.deliver.contract import Make, Means, Sender
from headrace.deliver.log import Lines
from headrace.deliver.mail import Mail
from headrace.deliver.push import Push
from headrace.deliver.webhook import Webhook
from headrace.plan.notifiers import EMAIL, LOG, PUSH, WEBHOOK, Notifier

SENDERS: Mapping[str, Make] = {WEBHOOK.name: Webhook, EMAIL.name: Mail, PUSH.name: Push, LOG.name: Lines}


def sender(notifier: Notifier, means: Means) -> Sender:
    return SENDERS[notifier.kind](notifier, means)
