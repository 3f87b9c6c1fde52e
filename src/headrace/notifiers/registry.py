"""Creates senders by the notifier kinds that `plan.notifiers` declares."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.notifiers.contract import Sender, SenderContext, SenderFactory
from headrace.notifiers.email import EmailSender
from headrace.notifiers.log_file import LogFileSender
from headrace.notifiers.web_push import WebPushSender
from headrace.notifiers.webhook import WebhookSender
from headrace.plan.notifiers import EMAIL, LOG, PUSH, WEBHOOK, Notifier

SENDER_FACTORIES: Mapping[str, SenderFactory] = {
    WEBHOOK.name: WebhookSender,
    EMAIL.name: EmailSender,
    PUSH.name: WebPushSender,
    LOG.name: LogFileSender,
}


def make_sender(notifier: Notifier, context: SenderContext) -> Sender:
    return SENDER_FACTORIES[notifier.kind](notifier, context)
