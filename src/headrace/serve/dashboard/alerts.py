"""Alerts: which are raised, what was told to whom, and a form for a new one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from headrace.control.notices import SENT, bounds_of
from headrace.plan.alerts import TOPIC
from headrace.plan.notifiers import PUSH
from headrace.plan.types import identifier_text
from headrace.serve.api import alerts as api
from headrace.serve.api.site import Site
from headrace.serve.api.statements import Ask, do_statements
from headrace.serve.dashboard import words
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Grid, cell, moving, notified, tag, text
from headrace.serve.dashboard.pulse import Moment

HOUR = 3_600
PATIENCE = 120.0
"""Seconds that a person has to allow notifications."""
_SEVERITIES = ["info", "warning", "critical"]


async def alerts(desk: Desk) -> None:
    raised = Grid(
        Column("key", "Raised for"),
        Column("alert", "Alert"),
        Column("message", "Message"),
        Column("since", "Since (UTC)"),
        label="Raised now",
    )
    text("h2", "Rules")
    rules = tag("div")
    text("h2", "What was told")
    history = Grid(
        Column("at", "Time (UTC)"),
        Column("alert", "Alert"),
        Column("key", "Key"),
        Column("state", "State"),
        Column("message", "Message"),
        Column("sent", "Sent"),
        key="id",
        label="What was told",
    )
    _browsers(desk)
    text("h2", "A new alert")
    Form(desk)
    shown: list[Any] = []

    async def show(_: Moment) -> None:
        found: list[api.Alert] = await desk.share(Alerts())
        raised.show([_raised(alert, one) for alert in found for one in alert.raised])
        told = [(a.name, a.rule, a.state, tuple(a.mutes)) for a in found]
        if told != shown:
            shown[:] = told
            rules.clear()
            with rules:
                for alert in found:
                    _rule(desk, alert)
        notices: api.History = await desk.share(Notices())
        history.show([_told(one) for one in notices.notices])

    await moving(desk, show)


@dataclass(frozen=True)
class Alerts:
    """All that may be seen, asked once a second for everybody."""

    def stamp(self, site: Site) -> object:
        """None: states of queries and what is muted change by themselves."""
        return None

    def answer(self, site: Site) -> list[api.Alert]:
        return api.list_alerts(site)


@dataclass(frozen=True)
class Notices:
    """The last ones, looked for when there are others, or something has become of one."""

    def stamp(self, site: Site) -> object:
        return bounds_of(site.log, TOPIC), bounds_of(site.log, SENT), tuple(site.node.catalog.alerts)

    def answer(self, site: Site) -> api.History:
        return api.list_notices(site, api.Asked(limit=50))


def _raised(alert: api.Alert, one: api.Raised) -> dict[str, object]:
    return {"key": cell(one.key), "alert": alert.name, "message": one.message, "since": words.moment(one.since)}


def _told(one: api.Told) -> dict[str, object]:
    sent = ", ".join(f"{delivery.notifier}: {delivery.state}" for delivery in one.deliveries)
    facts = {"id": one.id, "alert": one.alert, "key": cell(one.key), "state": one.state, "message": one.message}
    return {**facts, "at": words.moment(one.at), "sent": sent}


def _rule(desk: Desk, alert: api.Alert) -> None:
    with tag("div").classes("hr-entry"):
        muted = ", muted" if alert.mutes else ""
        text("pre", f"{alert.name} ({alert.severity}, {alert.state}{muted})\n{alert.text}").classes("hr-text")
        if alert.mutes:
            _button("Unmute", alert, desk, lambda: (api.unmute_alert, api.Unmuting(alert=alert.name)))
        else:
            _button("Mute", alert, desk, lambda: (api.mute_alert, api.Muting(alert=alert.name, seconds=HOUR)))
        _button("Drop", alert, desk, lambda: (api.drop_alert, api.Named(alert=alert.name)))


def _button(name: str, alert: api.Alert, desk: Desk, asking: Callable[[], tuple[Any, Any]]) -> None:
    async def done() -> None:
        with notified():
            await desk.ask(*asking())
            ui.notify(f"{name}: done", type="positive")

    button = ui.button(name, on_click=done).props("flat dense no-caps")
    button._props["aria-label"] = f"{name} {alert.name}"


def _browsers(desk: Desk) -> None:
    """For each notifier of browsers a way for this one to be told."""
    names = [one.name for one in desk.site.node.catalog.notifiers.values() if one.kind == PUSH.name]

    def subscribing(name: str) -> Callable[[], Any]:
        async def subscribe() -> None:
            hindered = await ui.run_javascript(f"return headrace.subscribe({json.dumps(name)})", timeout=PATIENCE)
            if hindered:
                ui.notify(f"not subscribed: {hindered}", type="negative", multi_line=True)
            else:
                ui.notify(f"this browser is told what {name} sends", type="positive")

        return subscribe

    with tag("div").classes("hr-row"):
        for name in sorted(names):
            ui.button(f"Tell this browser: {name}", icon="notifications", on_click=subscribing(name)).props(
                "outline no-caps"
            )


class Form:
    """What becomes a CREATE ALERT."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        sources = sorted(desk.site.node.catalog.sources) if desk.rights.is_admin else []
        notifiers = sorted(desk.site.node.catalog.notifiers) if desk.rights.is_admin else []
        with tag("form").classes("hr-row").on("submit.prevent", self._create):
            self._name = ui.input("Name").props("dense outlined")
            self._on = ui.select(sources, label="On", with_input=True, new_value_mode="add").props("dense outlined")
            self._when = ui.input("When", placeholder="temperature > 30").props("dense outlined").classes("hr-wide")
            self._severity = ui.select(_SEVERITIES, value="warning", label="Severity").props("dense outlined")
            self._notify = ui.select(notifiers, label="Notify", multiple=True).props("dense outlined")
            for one in (self._on, self._notify):
                one.classes("hr-select")
            ui.button("Create").props("type=submit unelevated no-caps")

    async def _create(self) -> None:
        """Names are quoted; a condition is KSQL, as in the editor."""
        with notified():
            named = identifier_text(self._name.value or ""), identifier_text(self._on.value or "")
            notify = ", ".join(map(identifier_text, self._notify.value or ()))
            statement = f"CREATE ALERT {named[0]} ON {named[1]} WHEN {self._when.value or ''}"
            statement += f" SEVERITY '{self._severity.value}'" + (f" NOTIFY {notify}" if notify else "")
            await self._desk.ask(do_statements, Ask(text=f"{statement};"))
            ui.notify("created", type="positive")
