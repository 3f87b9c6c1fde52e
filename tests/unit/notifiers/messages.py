"""Messages for tests."""

from __future__ import annotations

from typing import Any

from headrace.component import component
from headrace.notifiers.contract import Message, Notice, SenderContext
from headrace.notifiers.push_subscriptions import PushSubscriptions
from headrace.plan.notifiers import Notifier
from headrace.settings import Settings


def notice(number: int = 0, text: str = "it is hot") -> Notice:
    return Notice(f"id{number}", "HOT", "ALERT_HOT_0", "d1", "raised", "critical", text, 31.0, 1, 2, ("OPS",))


def message(*notices: Notice) -> Message:
    return Message("m1", "HOT", notices or (notice(),))


def notifier(kind: str, options: dict[str, Any]) -> Notifier:
    return Notifier("OPS", kind, component("notifier", kind).parse(options))


def means(settings: Settings, log: Any = None) -> SenderContext:
    """Without a log, for those who need no subscriptions."""
    return SenderContext(settings, PushSubscriptions(log))
