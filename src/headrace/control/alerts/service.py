"""The alerts of a server: notifiers, mutes, the delivery of notices, and who may see them."""

from __future__ import annotations

from headrace.access.guard import Guard
from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.alerts.delivery import AlertDelivery, send_test_message
from headrace.control.alerts.history import AlertHistory, user_can_see_notices
from headrace.control.statements.state import ServerState
from headrace.errors import (
    UnknownNotifier,
)
from headrace.notifiers.contract import Notice, SenderContext
from headrace.notifiers.push_subscriptions import PushSubscriptions
from headrace.plan.notifiers import Notifier
from headrace.settings import Settings


class AlertService:
    """Joins delivery and history of notices with the catalog."""

    def __init__(self, log: Log, settings: Settings, clock: Clock, guard: Guard, state: ServerState) -> None:
        self._clock = clock
        self._guard = guard
        self._state = state
        self.history = AlertHistory(log)
        self.sender_context = SenderContext(settings, PushSubscriptions(log), self.is_shown)
        self.delivery = AlertDelivery(log, self.sender_context, clock, self.is_muted)

    def reconcile(self) -> None:
        """Reconcile notifiers and history with the catalog."""
        self.delivery.reconcile(self._state.catalog)
        self.history.forget_other_queries(self._state.catalog.queries)

    def mutes(self, alert: str) -> dict[str | None, int]:
        """By key, the time in ms until which an alert's notices are muted; the key None stands for all."""
        now = self._clock.now()
        mutes = list(self._state.replay.mutes.items())  # copied: notifier threads read it while statements change it
        return {muted.key: until for muted, until in mutes if muted.alert == alert and until > now}

    def is_muted(self, notice: Notice) -> bool:
        return not self.mutes(notice.alert).keys().isdisjoint((None, notice.target))

    def is_shown(self, owner: str, query: str) -> bool:
        """Whether a user may see the notices of an alert's query, by their current rights."""
        return user_can_see_notices(self._guard, self._state.snapshot, owner, query)

    def notifier(self, name: str) -> Notifier:
        if name not in (notifiers := self._state.snapshot.notifiers):
            raise UnknownNotifier(f'notifier "{name}" does not exist', fix="LIST NOTIFIERS shows the existing ones")
        return notifiers[name]

    def send_test_message(self, notifier: str) -> None:
        """Send a test message by the notifier; raises if it is not delivered."""
        send_test_message(self.notifier(notifier), self.sender_context, self._clock)

    def close(self) -> None:
        self.delivery.close()
