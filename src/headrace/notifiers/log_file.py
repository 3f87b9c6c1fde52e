"""Writes notices as lines of the server's log file."""

from __future__ import annotations

import logging

from headrace.notifiers.contract import Message, SenderContext
from headrace.plan.notifiers import Notifier

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.ERROR}
_logger = logging.getLogger("headrace.alerts")


class LogFileSender:
    def __init__(self, notifier: Notifier, context: SenderContext) -> None:
        del notifier, context

    def send(self, message: Message) -> None:
        for notice, line in zip(message.notices, message.lines, strict=True):
            level = _LEVELS[notice.severity]
            _logger.log(level, "%s %s", message.alert, line, extra={"notice": notice.id, "alert": message.alert})
