"""Errors of alerts, notifiers and deliveries."""

from __future__ import annotations

from headrace.errors.base import Retry, StatementError, UserError


class BadAlert(StatementError, code="bad-alert"):
    """The rule of an alert is invalid."""


class UnknownAlert(StatementError, code="unknown-alert"):
    """The named alert does not exist."""


class AlertExists(StatementError, code="alert-exists"):
    """An alert of that name already exists."""


class UnknownNotifier(StatementError, code="unknown-notifier"):
    """The named notifier does not exist."""


class NotifierExists(StatementError, code="notifier-exists"):
    """A notifier of that name already exists."""


class NotifierInUse(StatementError, code="notifier-in-use"):
    """Alerts use the notifier."""


class NotDelivered(Retry, code="not-delivered"):
    """A message was not delivered; a retry may succeed."""


class DeliveryRefused(UserError, code="delivery-refused"):
    """A message cannot be sent, or is rejected; a retry does not help."""
