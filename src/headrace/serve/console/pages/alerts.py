"""The alerts page: active alerts, notices and their deliveries, and a form for a new alert."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from nicegui import ui

from headrace.control.alerts.history import OUTCOMES_TOPIC
from headrace.log.folded_topic import topic_bounds
from headrace.plan.alerts import TOPIC
from headrace.plan.notifiers import PUSH
from headrace.plan.types import identifier_text
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources import alerts as api
from headrace.serve.api.resources.statements import ExecuteRequest, execute_statements
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.query_states import STATE_NAMES
from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.layout import (
    Column,
    Grid,
    auto_refresh,
    cell,
    confirm,
    html_tag,
    html_text,
    notify_errors,
)

HOUR = 3_600
PATIENCE = 120.0
"""Seconds that a user has to allow notifications."""
_SEVERITIES = ["info", "warning", "critical"]


async def alerts(context: PageContext) -> None:
    html_text("h2", "Active alerts")
    raised = Grid(
        Column("alert", "Alert"),
        Column("key", "Key"),
        Column("message", "Message", wraps=True),
        Column("since", "Since (UTC)"),
        key="id",
        label="Active alerts",
        empty="No alert is active.",
    )
    html_text("h2", "Rules")
    rules = html_tag("div")
    html_text("h2", "Notification history")
    history = Grid(
        Column("at", "Time (UTC)"),
        Column("alert", "Alert"),
        Column("key", "Key"),
        Column("state", "State"),
        Column("message", "Message", wraps=True),
        Column("sent", "Deliveries", wraps=True),
        key="id",
        label="Notification history",
        empty="No notifications yet.",
    )
    _browsers(context)
    html_text("h2", "Create an alert")
    AlertForm(context)
    shown_states: list[Any] = [None]  # nothing is shown yet

    async def show(_: ServerSnapshot) -> None:
        descriptions: list[api.AlertDescription] = await context.cached(AlertsRequest())
        raised.show([_raised(alert, one) for alert in descriptions for one in alert.raised])
        rule_states = [(a.name, a.rule, a.state, tuple(a.mutes)) for a in descriptions]
        if rule_states != shown_states:
            shown_states[:] = rule_states
            rules.clear()
            with rules:
                for alert in descriptions:
                    _rule(context, alert)
                if not descriptions:
                    html_text("p", "No alerts are defined. Create one below.").classes("hr-note")
        notices: api.NoticePage = await context.cached(NoticesRequest())
        history.show([_notice_row(one) for one in notices.notices])

    await auto_refresh(context, show)


@dataclass(frozen=True)
class AlertsRequest:
    """All alerts that the user may see, fetched once a second for all pages."""

    work: ClassVar = WorkClass.CONSOLE

    def stamp(self, context: RequestContext) -> object:
        """None: states of queries and mutes change without a new version."""
        return None

    def answer(self, context: RequestContext) -> list[api.AlertDescription]:
        return api.list_alerts(context)


@dataclass(frozen=True)
class NoticesRequest:
    """The latest notices, fetched again when there are new notices or deliveries."""

    work: ClassVar = WorkClass.CONSOLE

    def stamp(self, context: RequestContext) -> object:
        return (
            topic_bounds(context.log, TOPIC),
            topic_bounds(context.log, OUTCOMES_TOPIC),
            tuple(context.node.catalog.alerts),
        )

    def answer(self, context: RequestContext) -> api.NoticePage:
        return api.list_notices(context, api.ListNoticesRequest(limit=50))


def _raised(alert: api.AlertDescription, one: api.ActiveAlert) -> dict[str, object]:
    return {
        "id": f"{alert.name}/{one.key}",
        "key": cell(one.key),
        "alert": alert.name,
        "message": one.message,
        "since": number_format.format_time(one.since),
    }


def _notice_row(one: api.NoticeEntry) -> dict[str, object]:
    sent = ", ".join(f"{delivery.notifier}: {delivery.state}" for delivery in one.deliveries)
    facts = {"id": one.id, "alert": one.alert, "key": cell(one.key), "state": one.state, "message": one.message}
    return {**facts, "at": number_format.format_time(one.at), "sent": sent}


def _rule(context: PageContext, alert: api.AlertDescription) -> None:
    with html_tag("div").classes("hr-entry"):
        muted = ", muted" if alert.mutes else ""
        state = STATE_NAMES.get(alert.state, alert.state)
        html_text("pre", f"{alert.name} ({alert.severity}, {state}{muted})\n{alert.text}").classes("hr-text")
        if alert.mutes:
            _button("Unmute", alert, context, lambda: (api.unmute_alert, api.UnmuteRequest(alert=alert.name)))
        else:
            _button("Mute", alert, context, lambda: (api.mute_alert, api.MuteRequest(alert=alert.name, seconds=HOUR)))
        drop = f"Drop alert {alert.name}? Its notification history remains."
        _button("Drop", alert, context, lambda: (api.drop_alert, api.AlertRequest(alert=alert.name)), drop)


def _button(
    name: str,
    alert: api.AlertDescription,
    context: PageContext,
    request: Callable[[], tuple[Any, Any]],
    question: str = "",
) -> None:
    """A button for an action, which the user must confirm if there is a question."""

    async def done() -> None:
        if question and not await confirm(question, name):
            return
        with notify_errors():
            await context.call(*request())
            ui.notify(f"{name} {alert.name}: done", type="positive")

    button = ui.button(name, on_click=done).props("flat dense no-caps")
    button._props["aria-label"] = f"{name} {alert.name}"


def _browsers(context: PageContext) -> None:
    """For each notifier of type PUSH, a button to subscribe this browser."""
    names = [one.name for one in context.api.node.catalog.notifiers.values() if one.kind == PUSH.name]

    def subscribing(name: str) -> Callable[[], Any]:
        async def subscribe() -> None:
            hindered = await ui.run_javascript(f"return headrace.subscribe({json.dumps(name)})", timeout=PATIENCE)
            if hindered:
                ui.notify(f"Could not subscribe: {hindered}", type="negative", multi_line=True)
            else:
                ui.notify(f"This browser now shows notifications of {name}", type="positive")

        return subscribe

    with html_tag("div").classes("hr-row"):
        for name in sorted(names):
            label = f"Get notifications of {name} in this browser"
            ui.button(label, icon="notifications", on_click=subscribing(name)).props("outline no-caps")


class AlertForm:
    """A form that becomes a CREATE ALERT statement."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        sources = sorted(context.api.node.catalog.sources) if context.rights.is_admin else []
        notifiers = sorted(context.api.node.catalog.notifiers) if context.rights.is_admin else []
        with html_tag("form").classes("hr-row").on("submit.prevent", self._create):
            self._name = ui.input("Name").props("dense outlined")
            self._on = ui.select(sources, label="Stream or table", with_input=True, new_value_mode="add").props(
                "dense outlined"
            )
            self._when = (
                ui.input("Condition", placeholder="temperature > 30").props("dense outlined").classes("hr-wide")
            )
            self._severity = ui.select(_SEVERITIES, value="warning", label="Severity").props("dense outlined")
            self._notify = ui.select(notifiers, label="Notify", multiple=True).props("dense outlined")
            for one in (self._on, self._notify):
                one.classes("hr-select")
            ui.button("Create").props("type=submit unelevated no-caps")

    async def _create(self) -> None:
        """Execute the statement. Names are quoted; the condition is KSQL, as in the editor."""
        with notify_errors():
            named = identifier_text(self._name.value or ""), identifier_text(self._on.value or "")
            notify = ", ".join(map(identifier_text, self._notify.value or ()))
            statement = f"CREATE ALERT {named[0]} ON {named[1]} WHEN {self._when.value or ''}"
            statement += f" SEVERITY '{self._severity.value}'" + (f" NOTIFY {notify}" if notify else "")
            await self._context.call(execute_statements, ExecuteRequest(text=f"{statement};"))
            ui.notify(f"Alert {named[0]} created", type="positive")
